"""What is known of a TLS library, however its plaintext is found: data only."""

import re
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, NamedTuple

from sslsniff.matching.probe_set import (
    KeyLog,
    Probe,
    ProbedLibrary,
    ReturnStyle,
    UnfitError,
    Unprobed,
)
from sslsniff.matching.rows import Plan

if TYPE_CHECKING:
    from sslsniff.core.library_failure import LibraryFailure
    from sslsniff.elf.elf_file import Elf

_NO_PROBES = "sslsniff cannot probe it yet"
NO_SYMBOLS = "it is linked in without symbols"
OTHER_END = "watch the other end of its connections"
WITH_SYMBOLS = f"build it with symbols, install its debug file, or {OTHER_END}"


class UnprobedLibrary(NamedTuple):
    """A TLS library that is not probed, how to recognise it, and why it is not probed.

    ``library``: its name for programs.
    ``name``: its name for people.
    ``exports``: a file that exports all of these has the library.
    ``texts``: so has a file with all of these in its read-only data, but without ``unless``. The
    first one is searched in every file, which is faster for a longer text.
    ``data_texts``: and all of these in its initialised data, where OCaml keeps texts.
    ``version``: finds the library's version in its read-only data.
    ``is_runtime``: the file is a virtual machine, whose programs may use another library instead.
    """

    library: str
    name: str
    exports: tuple[str, ...] = ()
    texts: tuple[bytes, ...] = ()
    unless: bytes | None = None
    data_texts: tuple[bytes, ...] = ()
    version: re.Pattern[bytes] | None = None
    reason: str = _NO_PROBES
    remedy: str = OTHER_END
    is_runtime: bool = False


def without_symbols(
    library: str,
    name: str,
    texts: tuple[bytes, ...],
    *,
    unless: bytes | None = None,
    version: re.Pattern[bytes] | None = None,
) -> UnprobedLibrary:
    """Return how a library is recognised where its plan finds no symbols. See its fields."""
    return UnprobedLibrary(
        library=library,
        name=name,
        texts=texts,
        unless=unless,
        version=version,
        reason=NO_SYMBOLS,
        remedy=WITH_SYMBOLS,
    )


class Found(NamedTuple):
    """What a search found in a file: libraries to probe, lines about what they lack, and others."""

    parts: list[ProbedLibrary]
    left_out: list[str]
    unprobed: list[Unprobed]


class Search(NamedTuple):
    """How a library is found and probed that no plan describes.

    ``fit``: searches a file; raises ``ElfError`` if it is damaged.
    ``programs``: returns the BPF programs that its probes can be of.
    ``text``: a file without this in its strings is not searched; None: each file is.
    ``remake``: returns the library of a version, a TLS version and probes, where its layout follows
    from the version; raises ``ValueError`` if there is no such version. None: it does not follow.
    ``rows``: returns what its BPF programs need in their tables: a table, a key, a value.
    """

    fit: "Callable[[Elf, ReturnStyle], Found]"
    programs: Callable[[], Collection[str | None]]
    text: bytes | None = None
    remake: Callable[[str, int | None, list[Probe]], ProbedLibrary] | None = None
    rows: Callable[[], Iterable[tuple[str, bytes, bytes]]] | None = None


class Library(NamedTuple):
    """A TLS library that is probed; each has a folder in ``sslsniff.libraries``.

    ``id``: its name for programs. ``name``: its name for people.
    ``plan``: where it is probed, if its functions have symbols; ``search``: how it is found if not.
    ``found_by``: what its functions are found by, for people.
    ``unprobed``: how it is recognised where no probes fit, and what to do then.
    ``key_log``: finds where it hands over its secrets; raises ``UnfitError``, and ``ElfError`` if
    the file is damaged. None: it never does, ``no_key_log`` says why.
    ``failure``: returns what an error's number says of a handshake; it also gets the number of what
    was found of the peer's certificate, None if that is unknown.
    """

    id: str
    name: str
    plan: Plan | None = None
    search: Search | None = None
    found_by: str = "symbols"
    unprobed: UnprobedLibrary | None = None
    key_log: "Callable[[Elf], KeyLog] | None" = None
    no_key_log: str = ""
    failure: "Callable[[int, int | None], LibraryFailure] | None" = None

    def find_key_log(self, elf: "Elf") -> KeyLog:
        """Return where a file hands over its secrets, or why it does not.

        Raises ``ElfError`` if the file is damaged.
        """
        if self.key_log is None:
            return KeyLog((), self.no_key_log)
        try:
            return self.key_log(elf)
        except UnfitError as unfit:
            return KeyLog((), str(unfit))
