"""A statement or command to a database, with what came of it."""

import re
import sys
from dataclasses import dataclass
from typing import NamedTuple

MOST_TEXT_BYTES = 64 << 10
"""Stored of a statement's text; the rest is only counted."""
MOST_PARAMETERS = 1000
PARAMETER_CHARACTERS = 4096
_PREPARED_BYTES = 300  # memory of a prepared statement beside its text

Parameter = str | int | float | bool | None
"""A parameter as shown: bytes are hexadecimal, after ``\\x``; None is NULL."""
Parameters = list[Parameter | list[Parameter]]
"""The parameters of an execution; of one that is of many rows at once, a list for each row."""

# A comment or white space before the first word of SQL, or brackets around it.
# Each text matches in one way only: else a hostile one would take exponential time.
_FIRST_WORD = re.compile(r"(?:\s|\(|(?:--|#)[^\n]*\n|/\*(?:[^*]|\*(?!/))*\*/)*([A-Za-z]+)")

_NO_SUCH_STATEMENT = frozenset(("26000", "34000", "1243"))
"""Codes of executions of what does not exist: a statement or portal (PostgreSQL), a number (MySQL,
ER_UNKNOWN_STMT_HANDLER)."""


@dataclass(slots=True, eq=False)
class Statement:
    """A statement. None marks what was not seen, or what there is not.

    ``system``: ``postgresql``, ``mysql`` or ``redis``. ``operation``: its first word, in capitals.
    ``text``: the text as sent, cut to ``MOST_TEXT_BYTES`` of ``size``. ``parameters``: those of a
    prepared statement. ``rows``: how many came back; ``affected``: how many were changed.
    ``error``, ``code``: what the database says of its failure, and SQLSTATE or an error number.
    ``idle_ns``: how long the session was idle in a transaction since the statement before it.
    ``transaction_ns``: how long the transaction lasted that it ended; ``transaction_idle_ns``: how
    long of that the session was idle.
    ``prepared``: the name of the prepared statement that is executed, empty for PostgreSQL's
    without a name; the number of MySQL's.
    """

    system: str
    operation: str | None = None
    text: str | None = None
    size: int = 0
    parameters: Parameters | None = None
    rows: int | None = None
    affected: int | None = None
    error: str | None = None
    code: str | None = None
    database: str | None = None
    user: str | None = None
    prepared: str | None = None
    idle_ns: int | None = None
    transaction_ns: int | None = None
    transaction_idle_ns: int | None = None

    @property
    def lacks_text(self) -> bool:
        """Whether it has a text that was not seen: of a statement prepared before, or lost."""
        if self.text is not None or self.code in _NO_SUCH_STATEMENT:
            return False
        return self.operation is None or self.prepared is not None

    @property
    def held_bytes(self) -> int:
        """About how much memory its text and its parameters take."""
        return sys.getsizeof(self.text or "") + parameters_bytes(self.parameters)


class Prepared(NamedTuple):
    """A prepared statement: its text, perhaps cut, its size, and the types of its parameters.

    ``text`` is None if the statement was prepared before the capture, or in lost bytes.
    """

    text: str | None
    size: int
    kinds: tuple[int, ...] = ()

    @property
    def held_bytes(self) -> int:
        """About how much memory it takes."""
        return sys.getsizeof(self.text or "") + 40 * len(self.kinds) + _PREPARED_BYTES


def parameters_bytes(parameters: Parameters | None) -> int:
    """Return about how much memory parameters take."""
    size = 0
    for each in parameters or ():
        size += 8 + sys.getsizeof(each)
        if isinstance(each, list):
            size += sum(map(sys.getsizeof, each))
    return size


def first_word(text: str) -> str | None:
    """Return the first word of SQL, in capitals; None if there is none."""
    found = _FIRST_WORD.match(text[:4096])
    return found[1].upper() if found else None


def shown_text(raw: bytes) -> str:
    """Return text of a database's protocol; what is not UTF-8 is shown as ISO 8859-1."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def shown_value(raw: bytes) -> str:
    """Return a value as text, or in hexadecimal if it is none; cut if it is long."""
    try:
        text = raw[: 4 * PARAMETER_CHARACTERS].decode()
    except UnicodeDecodeError:
        text = "\\x" + raw[:PARAMETER_CHARACTERS].hex()
    is_long = len(text) > PARAMETER_CHARACTERS
    return text[:PARAMETER_CHARACTERS] + "..." if is_long else text
