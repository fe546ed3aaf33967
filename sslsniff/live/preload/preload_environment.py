"""The environment of a command that the preloaded library watches."""

import filecmp
import os
import re
from collections.abc import Mapping
from pathlib import Path

from sslsniff.errors import TargetError
from sslsniff.kernel import procfs

LIBRARY = Path(__file__).with_name("libpreload.so")
_BY_LOADER = LIBRARY.with_name("loaders")
"""Each folder in here is what a dynamic linker puts for ``$LIB`` (ld.so(8)). In those of 32 bits is
an empty library, as their programs complain of another one; musl leaves the word as it is."""
_C_LIBRARY = "libc.so.6"
RING_VARIABLE = "SSLSNIFF_RING"
"""Of ``preload/shared.h``."""
_SEPARATORS = re.compile(r"[ :]")  # ld.so(8), LD_PRELOAD


def preload_environment(ring_path: str, before: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return ``before`` with what loads the library, which writes to the ring at ``ring_path``.

    Libraries that the user preloads come first, as without sslsniff. Raises ``TargetError``.
    """
    path = str(_library())
    if _SEPARATORS.search(path):
        raise TargetError(
            f"{path} cannot be preloaded: LD_PRELOAD has no way to write a space or a colon",
            "install sslsniff in another folder",
        )
    libraries = [each for each in (before.get("LD_PRELOAD"), path) if each]
    return {**before, "LD_PRELOAD": ":".join(libraries), RING_VARIABLE: ring_path}


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
