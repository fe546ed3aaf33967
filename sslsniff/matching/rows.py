"""The types that a plan consists of."""

import re
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from sslsniff.machine_code.conventions import Signature
from sslsniff.matching.object_layout import ObjectLayout

if TYPE_CHECKING:
    from sslsniff.elf.elf_file import Elf


class At(Enum):
    """Where a row's probes are placed.

    ENTRY: at the function's first instructions, and at its returns, or with a return probe.
    SPAN: at emulated instructions within the function.
    CALLS: at all direct calls of the function and right after them, except in functions that are
    probed already.
    INNER: in the functions to which this and other functions pass their calls on.
    HANDED: in the functions that get its object and its buffer, and perhaps a constant.
    SIGNED: in the function itself, which has the row's signature, and in those that it jumps to.
    STORED: at the entries of the functions whose addresses it stores.
    """

    ENTRY = "entry"
    SPAN = "span"
    CALLS = "calls"
    INNER = "inner"
    HANDED = "handed"
    SIGNED = "signed"
    STORED = "stored"


class Passing(NamedTuple):
    """A call by which a function without a symbol is found.

    ``caller`` calls the function with its own arguments unchanged in ``registers``. The function
    reads all of these, which other functions with the same caller do not.
    """

    caller: str
    registers: tuple[str, ...] = ()


class PointerTable(NamedTuple):
    """What is known of a table of pointers to functions in a library's data.

    The library has two tables of this form. Functions are given by their indexes.

    ``size``: how many pointers a table has.
    ``empty``: those that are null.
    ``common``: those that both tables have. All others differ.
    ``passes``: two functions; in the table that is meant the first calls the second directly.
    """

    size: int
    empty: frozenset[int]
    common: frozenset[int]
    passes: tuple[int, int]


class Listed(NamedTuple):
    """A function without a symbol, by its index in a table; ``name`` is for messages."""

    name: str
    table: PointerTable
    number: int


class Continued(NamedTuple):
    """The function to which ``caller`` jumps, with its own arguments in ``registers``."""

    caller: str
    registers: tuple[str, ...]


class Raising(NamedTuple):
    """A function without a symbol that raises an error which its callers choose.

    It is the one that calls ``raises``, a function of another library, with the number
    ``library`` as the first argument, and with its own arguments: each of ``passed`` is the
    register of an argument and the register in which the function itself got that. It also passes
    its own first argument, the object, to another function. ``name`` is for messages.
    """

    name: str
    raises: str
    library: int
    passed: tuple[tuple[str, str], ...]


class CallingBack(NamedTuple):
    """A function without a symbol that calls what a program has set by ``setter``.

    ``setter`` stores its second argument in an object, and the function calls what is there in its
    own first argument, the object. It reads its arguments in ``registers``. ``name`` is for
    messages.
    """

    name: str
    setter: str
    registers: tuple[str, ...]


class Row(NamedTuple):
    """One function to probe.

    ``function``: its symbol, or how a function without a symbol is found: by calls, in a table, by
    a jump, by an error that it raises, or by what it calls back.
    ``enter``, ``leave``: the BPF programs for its entry and its returns.
    ``registers``: those that ``enter`` reads (System V ABI: rdi, rsi, rdx, rcx, r8, r9).
    ``unless``: the row is only for files that do not define this function.
    ``through``: the row is skipped if its function calls an already probed one, directly or through
    the functions named here. A compiler may have inlined the called function.
    ``at``: where the probes are placed.
    ``outer``: the public functions whose calls are to be seen (INNER, HANDED).
    ``others``: the public functions whose calls must not be seen (INNER, HANDED).
    ``writes``: the direction (INNER, HANDED, SIGNED).
    ``kind``: the constant, if there is one (HANDED).
    ``signature``: where the function gets its arguments (SIGNED).
    ``record``: the BPF program for the function that gets each record, if there is one (HANDED).
    That one gets the found function's object, buffer and kind, and is probed instead.
    """

    function: "WantedFunction"
    enter: str | None = None
    leave: str | None = None
    registers: tuple[str, ...] = ()
    unless: str | None = None
    through: tuple[str, ...] | None = None
    at: At = At.ENTRY
    outer: tuple[tuple[str, Signature], ...] = ()
    others: tuple[tuple[str, Signature], ...] = ()
    writes: bool = False
    kind: int | None = None
    signature: Signature | None = None
    record: str | None = None


WantedFunction = str | tuple[Passing, ...] | Listed | Continued | Raising | CallingBack
"""A symbol, or how a function without a symbol is found."""

Alternative = tuple[Row, ...]
"""Rows that are used together: if one does not fit, none is used."""


class Plan(NamedTuple):
    """How a library is recognised and where it is probed.

    ``symbols``, ``marks``: a file has the library if it defines all ``symbols``, and one of
    ``marks`` if there are any. ``mark_text``: a text in its read-only data that does in their
    place, as linkers remove functions that nothing calls.
    ``file_names``: the beginnings of the names of its shared libraries.
    ``required``: groups of alternatives. Of each group the cheapest alternative that fits is used,
    the first of equals. If none fits, the file is refused.
    ``optional``: rows that are left out if they do not fit.
    ``version``: finds the library's version in the file's read-only data.
    ``symbol_version``: finds releases in the names of symbol versions. The newest is the library's,
    if ``version`` finds none.
    ``layout``: reads from the library's code where its objects keep what it knows of a connection.
    """

    library: str
    symbols: tuple[str, ...]
    marks: tuple[str, ...]
    file_names: tuple[str, ...]
    required: tuple[tuple[Alternative, ...], ...]
    optional: tuple[Row, ...]
    version: re.Pattern[bytes] | None = None
    symbol_version: re.Pattern[bytes] | None = None
    mark_text: bytes | None = None
    layout: "Callable[[Elf], ObjectLayout] | None" = None
