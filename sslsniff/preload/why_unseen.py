"""Says why a preloaded library does not see the calls of a TLS library."""

import os
import stat
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSegment
from elftools.elf.elffile import ELFFile

from sslsniff.core.errors import ElfError
from sslsniff.elf.elf_file import Elf

NOT_PRELOADED = "the process was started without LD_PRELOAD"
NOT_FOUND = "the process has other files, without sslsniff's library"
NO_MEMORY = "the process has another /proc, or may not open sslsniff's memory"
FILTERED = "the process runs under a filter of system calls"
LIMITED = (
    "the process limits or locks its memory, or limits the size of files"
    " (setrlimit, ulimit, mlockall)"
)
TOO_MANY = "the process has 16 other TLS libraries, and more cannot be wrapped"
_SETUID = "the program is setuid: nothing can be preloaded into it"
_FOREIGN = "the program is for another processor"
_STATIC = "the program loads no libraries"
_IN_PROGRAM = "it is linked into the program"
_IN_LIBRARY = "it is linked into a library"
_NOT_WRAPPED = "only the functions of OpenSSL, GnuTLS and NSS are wrapped"

REMEDIES = {_FOREIGN: "only x86-64 programs can be watched"}
"""Of reasons for which no rights help."""

_WRAPPED = ("SSL_read", "gnutls_record_recv", "SSL_ImportFD")
"""Functions of OpenSSL, GnuTLS and NSS: whatever has them for others has all that are wrapped."""
_SELDOM_INSIDE = frozenset({"wolfssl", "mbedtls", "s2n"})
"""Libraries that are a file of their own, for most programs."""


def no_library(program: str) -> str:
    """Return why the dynamic linker preloads nothing into a program; "": it does, or is unknown."""
    try:
        return _why_not_loaded(Path(program))
    except (OSError, ELFError):
        return ""


def linked_in(path: str, library: str, is_program: bool) -> str:
    """Return why calls of a TLS library in a file cannot be wrapped; "": they can."""
    if is_program:
        return _IN_PROGRAM
    try:
        with Elf(path) as elf:
            if any(map(elf.exports, _WRAPPED)):
                return ""
    except (OSError, ElfError):
        return ""
    return _NOT_WRAPPED if library in _SELDOM_INSIDE else _IN_LIBRARY


def _why_not_loaded(path: Path) -> str:
    if path.stat().st_mode & (stat.S_ISUID | stat.S_ISGID):
        return _SETUID
    with path.open("rb") as file:
        elf = ELFFile(file)
        if elf.get_machine_arch() != _own_architecture():
            return _FOREIGN
        loads = _has_interpreter(elf) or _is_dynamic_linker(elf)
    return "" if loads else _STATIC


def _has_interpreter(elf: ELFFile) -> bool:
    return any(each["p_type"] == "PT_INTERP" for each in elf.iter_segments())


def _is_dynamic_linker(elf: ELFFile) -> bool:
    """Say whether a file without an interpreter is one: a static program has nothing for others."""
    dynamic = (each for each in elf.iter_segments() if isinstance(each, DynamicSegment))
    symbols = (symbol for each in dynamic for symbol in each.iter_symbols())
    return any(symbol["st_shndx"] != "SHN_UNDEF" for symbol in symbols)


def _own_architecture() -> str:
    return {"x86_64": "x64", "aarch64": "AArch64"}.get(os.uname().machine, os.uname().machine)
