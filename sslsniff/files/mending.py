"""A program that makes an output file complete if sslsniff is killed in the middle of a write.

The kernel stops a write between two pages when its process gets SIGKILL (``generic_perform_write``
in mm/filemap.c): with captures written at full speed, 8 of 10 kills left a packet cut. This program
waits until sslsniff is gone (its end of a pipe closes), and then mends the end of the file.

It is started as ``mending.py KIND FILE POSITION``. FILE and POSITION are file descriptors; the file
at POSITION has 8 bytes, which say up to which position FILE is whole. The program imports nothing
of sslsniff. It drops all rights, as it needs none: it is started before sslsniff drops its own.
"""

import contextlib
import os
import struct
import sys

HAR_END = b"\n]}}\n"
"""The end of an archive, after its last entry."""

_NOBODY = 65534  # the overflow user id: kernel/sys.c, DEFAULT_OVERFLOWUID
_PCAP_FILE_BYTES = 24
_PCAP_RECORD = struct.Struct("<8xI4x")  # the number of captured bytes
_PCAPNG_BLOCK = struct.Struct("<4xI")


def end_archive(archive: int, position: int) -> None:
    """Write the end of the open file ``archive`` at ``position``, after its last entry."""
    os.pwrite(archive, HAR_END, position)
    os.ftruncate(archive, position + len(HAR_END))


def end_pcap(capture: int, position: int) -> None:
    """Cut the open file ``capture`` after its last whole packet.

    It is known to be whole up to ``position``. Space that was reserved after its end is freed.
    """
    _cut(capture, position or _PCAP_FILE_BYTES, _PCAP_RECORD, added=_PCAP_RECORD.size)


def end_pcapng(capture: int, position: int) -> None:
    """Cut the open file ``capture`` after its last whole block; see ``end_pcap``."""
    _cut(capture, position, _PCAPNG_BLOCK, added=0)


def _cut(capture: int, position: int, head: struct.Struct, added: int) -> None:
    """Cut after the last whole record: its length is what ``head`` reads plus ``added`` bytes."""
    size = os.fstat(capture).st_size
    with contextlib.suppress(OSError):  # a file that cannot be read is cut at ``position``
        while position + head.size <= size:
            length = added + head.unpack(os.pread(capture, head.size, position))[0]
            if length < head.size or position + length > size:
                break
            position += length
    os.ftruncate(capture, min(position, size))


KINDS = {"har": end_archive, "pcap": end_pcap, "pcapng": end_pcapng}


def main() -> None:
    """Wait until standard input ends, then mend."""
    _drop_rights()
    kind, file, position = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    sys.stdin.buffer.read()
    KINDS[kind](file, int.from_bytes(os.pread(position, 8, 0), "little"))


def _drop_rights() -> None:
    """Become the user nobody if started as root: other users have no rights to drop."""
    with contextlib.suppress(OSError):  # root without the right to change users, or user namespace
        os.setgroups([])
        os.setresgid(_NOBODY, _NOBODY, _NOBODY)
        os.setresuid(_NOBODY, _NOBODY, _NOBODY)


if __name__ == "__main__":
    main()
