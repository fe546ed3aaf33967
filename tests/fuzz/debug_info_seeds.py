"""Where the search of the targets for debug info begins: the sections of real programs."""

import io
import struct

from elftools.elf.elffile import ELFFile

from tests.fuzz.described_program import VERSIONS, compile_program

_NO_CHANGES = 64
"""How long a list of bits to change the search begins with; it changes none."""


def debug_info_seeds() -> dict[str, list[bytes]]:
    """Return the seeds of debug_info_targets.py by the targets' names."""
    programs = [ELFFile(io.BytesIO(compile_program(version))) for version in VERSIONS]
    return {
        "scanner": [_scanned(each) for each in programs],
        "lines": [_line_program(each) for each in programs],
        "debug_info": [bytes((index, *bytes(_NO_CHANGES))) for index in range(len(VERSIONS))],
    }


def _scanned(program: ELFFile) -> bytes:
    parts = [_section(program, each) for each in ("abbrev", "str_offsets", "info")]
    return struct.pack("<2H", len(parts[0]), len(parts[1])) + b"".join(parts)


def _line_program(program: ELFFile) -> bytes:
    """Return the part of .debug_line after its header, with what clang writes there."""
    lines = _section(program, "line")
    version = int.from_bytes(lines[4:6], "little")
    length_at = 8 if version >= 5 else 6
    start = length_at + 4 + int.from_bytes(lines[length_at : length_at + 4], "little")
    return struct.pack("<2B?b2B", 8, 1, True, -5, 14, 13) + lines[start:]


def _section(program: ELFFile, name: str) -> bytes:
    section = program.get_section_by_name(f".debug_{name}")
    return section.data() if section else b""
