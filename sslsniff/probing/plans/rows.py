"""The form of a plan."""

import re
from enum import Enum
from typing import NamedTuple

from sslsniff.machine_code.conventions import Signature


class At(Enum):
    """Where a row's probes are placed.

    ENTRY: in the function's first instructions, and at its returns or a return probe. SPAN: on two
    places within it that the kernel emulates. CALLS: at all direct calls of it and right after
    them, but in functions that are probed already. INNER: in the functions that it, and others,
    hand their calls on to. HANDED: in the functions that get its object and buffer, and a constant.
    """

    ENTRY = "entry"
    SPAN = "span"
    CALLS = "calls"
    INNER = "inner"
    HANDED = "handed"


class Passing(NamedTuple):
    """A call by which a function without a symbol is known.

    ``caller`` calls it and hands it ``registers`` as it was given them itself. The function reads
    them all: that tells it from others that happen to be called on the way.
    """

    caller: str
    registers: tuple[str, ...] = ()


class Row(NamedTuple):
    """One function to probe.

    ``function`` is its symbol, or the calls by which one without a symbol is known. ``enter`` and
    ``leave`` are BPF programs, for its entry and its return. ``registers`` are those that ``enter``
    reads (System V ABI: rdi, rsi, rdx, rcx, r8, r9). ``unless``: the row is for files that do not
    define this function. ``through``: the function usually calls one that is probed already, itself
    or through these; the row is needed only where it does not, as a compiler may have put the
    called one into it. ``at`` says where in the function, or outside of it, the probes are placed.
    ``outer`` are, for INNER, the public functions whose work is seen; ``others`` those whose work
    must not be seen there; ``writes`` is the direction. For HANDED, each of ``outer`` that the file
    has must hand its calls on with ``kind``.
    """

    function: str | tuple[Passing, ...]
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


Alternative = tuple[Row, ...]
"""Rows that belong together: all of them fit, or none is used."""


class Plan(NamedTuple):
    """How a library is recognised and where it is probed.

    A file that defines all ``symbols``, and one of ``marks`` if there are any, has the library in
    it. Of each group in ``required`` the
    cheapest alternative that fits is used, the earlier of equals; where none fits, the file is
    refused. ``optional`` rows are left out where they do not fit. ``file_names`` begin the names of
    the shared libraries that it comes in. ``version`` finds the library's in its read-only data.
    """

    library: str
    symbols: tuple[str, ...]
    marks: tuple[str, ...]
    file_names: tuple[str, ...]
    required: tuple[tuple[Alternative, ...], ...]
    optional: tuple[Row, ...]
    version: re.Pattern[bytes] | None = None
