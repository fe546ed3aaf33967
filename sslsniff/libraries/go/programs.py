"""Programs in Go: which release built them, and whether they have crypto/tls.

This works also after stripping (-ldflags="-s -w") and -trimpath: tracebacks and the garbage
collector need the names of functions (runtime/symtab.go), and ``go version`` needs the release.
"""

import re

from sslsniff.elf.elf_file import Elf
from sslsniff.libraries.go.function_table import SECTIONS

_BUILD_INFO = ".go.buildinfo"
_WRITE = b"\0crypto/tls.(*Conn).Write\0"

# debug/buildinfo: magic, size of a pointer, flags; since Go 1.18 the release is at byte 32,
# after its length in one byte.
_RELEASE = re.compile(rb"\xff Go buildinf:.[\x02\x03].{16}[\x01-\x7f]go(\d+\.\d+[\w.]*)", re.DOTALL)
_MOST_BYTES = 128


def has_crypto_tls(elf: Elf) -> bool:
    """Say whether a file is a Go program with crypto/tls in it. Raises ``ElfError``."""
    return elf.section_address(_BUILD_INFO) is not None and any(
        _WRITE in elf.section_region(name) for name in SECTIONS
    )


def release(elf: Elf) -> str | None:
    """Return the release of Go that built a program, such as "1.26.8"; None if it is not known."""
    region = elf.section_region(_BUILD_INFO)
    found = _RELEASE.match(region.read(0, min(region.size, _MOST_BYTES)))
    return found[1].decode() if found else None
