"""Finds the calls that raise errors in one source file of a library, in a stripped program.

Such a call has the source file's name, the line and the reason as constants. Compilers merge calls,
so a call may raise several errors: each path to it has one.
"""

from collections import Counter
from typing import NamedTuple

from sslsniff.machine_code.instructions import ARGUMENTS
from sslsniff.machine_code.known_values import Number, Value
from sslsniff.machine_code.stripped.path_walk import WalkedCall
from sslsniff.machine_code.stripped.references import AddressRange
from sslsniff.machine_code.stripped.stripped_code import StrippedCode

_MOST_32 = 0xFFFFFFFF


class TextCall(NamedTuple):
    """A call in the function at ``owner`` that gets a text as the argument ``register``."""

    owner: int
    register: str
    call: WalkedCall


class RaisedError(NamedTuple):
    """An error that the function at ``owner`` raises: the call's place, its line and reason."""

    owner: int
    place: int
    line: int
    reason: int


class ErrorCalls(NamedTuple):
    """All errors of a source file that were found.

    ``raise_function``: the function that all these calls lead to (``ERR_put_error``).
    ``name``: the source file's, as the program has it.
    ``lost``: the references to that name which are in no function.
    """

    errors: tuple[RaisedError, ...]
    raise_function: int
    name: str
    references: int
    lost: tuple[int, ...]


class NoErrorsError(Exception):
    """The errors of a source file were not found; the text says why."""


def text_calls(code: StrippedCode, texts: list[AddressRange]) -> list[TextCall]:
    """Return the calls that get one of ``texts`` as an argument, in all functions around.

    Raises ``ElfError``.
    """
    return _text_calls(code, texts, [each.address for each in code.references_to(texts)])[0]


def _text_calls(
    code: StrippedCode, texts: list[AddressRange], references: list[int]
) -> tuple[list[TextCall], tuple[int, ...]]:
    owners = code.owners_of(references)
    known = {place for places in owners.values() for place in places}
    found = [
        TextCall(owner, register, call)
        for owner in owners
        for call in code.walk(owner).calls
        for register, value in call.arguments
        if isinstance(value, Number) and any(low <= value.value < high for low, high in texts)
    ]
    return found, tuple(each for each in references if each not in known)


def find_error_calls(code: StrippedCode, source: bytes, library: int) -> ErrorCalls:
    """Return the errors that the functions of ``source`` raise: ``ERR_put_error(library, ...)``.

    ``source``: the end of the source file's name. ``library``: the number of the library in errors.
    Raises ``NoErrorsError`` if there are none, and ``ElfError``.
    """
    shown = source.decode()
    texts = code.texts_ending_with(source)
    if not texts:
        raise NoErrorsError(f"it has no text that ends with {shown}")
    name = code.text(texts[0][0]) or shown
    references = [each.address for each in code.references_to(texts)]
    if not references:
        raise NoErrorsError(f"no code refers to the text {name} at {texts[0][0]:#x}")
    calls, lost = _text_calls(code, texts, references)
    raised = [(each.call.target, error) for each in calls if (error := _error(each, library))]
    if not raised:
        raise NoErrorsError(
            f"no call has the text {name}, a line and a reason ({len(references)} references,"
            f" {len(lost)} of them in no function)"
        )
    # Any other function with such arguments would be something else.
    [(target, _)] = Counter(target for target, _ in raised).most_common(1)
    if target is None:
        raise NoErrorsError(f"the calls with the text {name} are indirect")
    errors = dict.fromkeys(error for each, error in raised if each == target)
    return ErrorCalls(tuple(sorted(errors)), target, name, len(references), lost)


def _error(found: TextCall, library: int) -> RaisedError | None:
    """Return the error that a call raises; None: it has not the arguments of ``ERR_put_error``."""
    arguments = dict(found.call.arguments)
    given, _, reason, name, line = (arguments.get(each) for each in ARGUMENTS[:5])
    if found.register != ARGUMENTS[3] or name is None or number_of(given) != library:
        return None
    reason_number, line_number = number_of(reason), number_of(line)
    if reason_number is None or line_number is None:
        return None
    return RaisedError(found.owner, found.call.address, line_number, reason_number)


def number_of(value: Value | None) -> int | None:
    """Return a value's low 32 bits if it is a number; None: it is none, or unknown."""
    return value.value & _MOST_32 if isinstance(value, Number) else None
