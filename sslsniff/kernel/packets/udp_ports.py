"""Finds the UDP ports of a process: packets of QUIC do not say whose they are."""

from pathlib import Path

_TABLES = ("udp", "udp6")
_SOCKET = "socket:["


def udp_ports(pid: int) -> set[int]:
    """Return the local ports of a process's UDP sockets; none if it has ended."""
    try:
        inodes = {*map(_inode, Path(f"/proc/{pid}/fd").iterdir())} - {""}
        rows = [
            row.split()
            for name in _TABLES
            for row in Path(f"/proc/{pid}/net/{name}").read_text("ascii").splitlines()[1:]
        ]
    except OSError:
        return set()
    # proc(5), /proc/net/udp: the local address is the second column, the inode the tenth.
    return {int(row[1].rpartition(":")[2], 16) for row in rows if row[9] in inodes}


def _inode(descriptor: Path) -> str:
    """Return the inode number of a socket; "" for other files."""
    try:
        target = str(descriptor.readlink())
    except OSError:  # it was closed meanwhile
        return ""
    return target.removeprefix(_SOCKET)[:-1] if target.startswith(_SOCKET) else ""
