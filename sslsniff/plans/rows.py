"""The form of a plan."""

from typing import NamedTuple


class Passing(NamedTuple):
    """A call that hands on its caller's own arguments.

    ``caller`` calls a function while ``registers`` still hold what the caller was given.
    """

    caller: str
    registers: tuple[str, ...]


class Row(NamedTuple):
    """One function to probe.

    ``function`` is its symbol, or the calls by which one without a symbol is known: it is what all
    of them call. ``enter`` and ``leave`` are BPF programs, for its entry and its return.
    ``registers`` are those that ``enter`` reads (System V ABI: rdi, rsi, rdx, rcx, r8, r9).
    """

    function: str | tuple[Passing, ...]
    enter: str | None = None
    leave: str | None = None
    registers: tuple[str, ...] = ()


Alternative = tuple[Row, ...]
"""Rows that belong together: all of them fit, or none is used."""


class Plan(NamedTuple):
    """How a library is recognised and where it is probed.

    A file that defines all ``symbols``, and one of ``marks`` if there are any, has the library in
    it. Of each group in ``required`` the
    cheapest alternative that fits is used, the earlier of equals; where none fits, the file is
    refused. ``optional`` rows are left out where they do not fit. ``file_names`` begin the names of
    the shared libraries that it comes in.
    """

    library: str
    symbols: tuple[str, ...]
    marks: tuple[str, ...]
    file_names: tuple[str, ...]
    required: tuple[tuple[Alternative, ...], ...]
    optional: tuple[Row, ...]
