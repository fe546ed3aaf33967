"""Makes the environment of a command that the preloaded library watches."""

import contextlib
import filecmp
import os
import re
from collections.abc import Mapping
from pathlib import Path

from sslsniff.core.errors import ElfError, TargetError
from sslsniff.elf.elf_file import Elf
from sslsniff.kernel import procfs

LIBRARY = Path(__file__).with_name("libpreload.so")
_BY_LOADER = LIBRARY.with_name("loaders")
"""Each folder in here is what a dynamic linker puts for ``$LIB`` (ld.so(8)). In those of 32 bits is
an empty library, as their programs complain of another one; musl leaves the word as it is."""
_C_LIBRARY = "libc.so.6"
RING_VARIABLE = "SSLSNIFF_RING"
"""Of ``preload/shared.h``."""
_SANITIZER = "ASAN_OPTIONS"
_ANY_ORDER = "verify_asan_link_order=0"
"""AddressSanitizer ends a program in which its library is not the first one."""
_OWN_OPTIONS = "__asan_default_options"
"""``preload/sanitizers.h`` says so by a function of this name; one of the program's comes first."""
_SEPARATORS = re.compile(r"[ :]")  # ld.so(8), LD_PRELOAD


def preload_environment(
    ring_path: str, program: str | None, before: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Return ``before`` with what loads the library into ``program``, where that is known.

    ``ring_path``: the file by which the library finds sslsniff.
    Libraries that the user preloads come first, as without sslsniff; options that the user sets
    for a sanitizer come last, and so prevail. Raises ``TargetError``.
    """
    path = str(_library())
    if _SEPARATORS.search(path):
        raise TargetError(
            f"{path} cannot be preloaded: LD_PRELOAD has no way to write a space or a colon",
            "install sslsniff in another folder",
        )
    libraries = [each for each in (before.get("LD_PRELOAD"), path) if each]
    own = {RING_VARIABLE: ring_path, "LD_PRELOAD": ":".join(libraries)}
    if program is not None and _has_own_options(program):
        options = [each for each in (_ANY_ORDER, before.get(_SANITIZER)) if each]
        own[_SANITIZER] = ":".join(options)
    return {**before, **own}


def _has_own_options(program: str) -> bool:
    """Say whether a program has options of its own for AddressSanitizer."""
    with contextlib.suppress(OSError, ElfError), Elf(program) as elf:
        return bool(elf.exports(_OWN_OPTIONS))
    return False


def _library() -> Path:
    """Return the library with ``$LIB`` in its path, if this system's is known to be LIBRARY.

    On others, as Arch Linux, ``lib`` stands for 64 bits: programs of 32 bits complain there.
    """
    for each in procfs.mapped_files(os.getpid()):
        folder, _, name = each.path.rpartition("/")
        if name == _C_LIBRARY:
            by_loader = _BY_LOADER / folder.removeprefix("/usr").strip("/") / LIBRARY.name
            if by_loader.is_file() and filecmp.cmp(by_loader, LIBRARY):
                return _BY_LOADER / "$LIB" / LIBRARY.name
    return LIBRARY
