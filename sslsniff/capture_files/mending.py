"""A program that makes an output file complete if sslsniff is killed in the middle of a write.

The kernel ends a write between two pages when its process gets SIGKILL (``generic_perform_write``
in mm/filemap.c): of captures that were being written as fast as can be, 8 of 10 kills left a packet
cut. This waits until sslsniff is gone (its end of a pipe closes), and mends the end of the file. It
imports nothing of sslsniff, and is started as ``mending.py KIND FILE PLACE``: two file descriptors,
of which PLACE holds the position up to which the file is whole in 8 bytes.
It needs nothing else, and so no rights: it is started before sslsniff gives up its own.
"""

import contextlib
import os
import struct
import sys

HAR_END = b"\n]}}\n"
"""The end of an archive, after its last entry."""

_NOBODY = 65534  # the overflow user id: kernel/sys.c, DEFAULT_OVERFLOWUID
_PCAP_FILE_BYTES = 24
_PCAP_RECORD = struct.Struct("<8xI4x")  # how much of the packet is there
_PCAPNG_BLOCK = struct.Struct("<4xI")


def end_archive(archive: int, at: int) -> None:
    """Write the end of the open file ``archive`` at ``at``, the position after its last entry."""
    os.pwrite(archive, HAR_END, at)
    os.ftruncate(archive, at + len(HAR_END))


def end_pcap(capture: int, at: int) -> None:
    """Cut the open file ``capture`` after its last whole packet.

    Up to position ``at`` it is known to be whole. Space that was reserved after its end is freed.
    """
    _cut(capture, at or _PCAP_FILE_BYTES, _PCAP_RECORD, added=_PCAP_RECORD.size)


def end_pcapng(capture: int, at: int) -> None:
    """Do as ``end_pcap`` does, with blocks of pcapng."""
    _cut(capture, at, _PCAPNG_BLOCK, added=0)


def _cut(capture: int, at: int, head: struct.Struct, added: int) -> None:
    """Cut after the last whole record: ``head`` reads its length, without ``added`` bytes."""
    size = os.fstat(capture).st_size
    with contextlib.suppress(OSError):  # a file that cannot be read is cut where it was noted
        while at + head.size <= size:
            length = added + head.unpack(os.pread(capture, head.size, at))[0]
            if length < head.size or at + length > size:
                break
            at += length
    os.ftruncate(capture, min(at, size))


KINDS = {"har": end_archive, "pcap": end_pcap, "pcapng": end_pcapng}


def main() -> None:
    """Wait until standard input ends, then mend."""
    _drop_rights()
    kind, file, place = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    sys.stdin.buffer.read()
    KINDS[kind](file, int.from_bytes(os.pread(place, 8, 0), "little"))


def _drop_rights() -> None:
    """Become nobody, if root: an other user has no rights to begin with."""
    with contextlib.suppress(OSError):  # root without the right to change users, or user namespace
        os.setgroups([])
        os.setresgid(_NOBODY, _NOBODY, _NOBODY)
        os.setresuid(_NOBODY, _NOBODY, _NOBODY)


if __name__ == "__main__":
    main()
