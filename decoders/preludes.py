"""Recognises what a proxy sends before the first byte of a connection's protocol.

The PROXY protocol puts a header before what the client sends (HAProxy, proxy-protocol.txt). With
SOCKS both sides send some messages first (RFC 1928, RFC 1929, and SOCKS 4 and 4A).
"""

import re
from typing import NamedTuple

from sslsniff.decoders.messages import Side


class Prelude(NamedTuple):
    """What comes first: its size in bytes, 0 if there is none, and its name."""

    size: int
    name: str = ""


NONE = Prelude(0)
SOCKS = "SOCKS handshake"

_IP = rb" [0-9A-Fa-f.:]+"
_PROXY_1 = re.compile(rb"PROXY (?:UNKNOWN[^\r\n]*|TCP[46]" + _IP + _IP + rb" \d+ \d+)\r\n")
_PROXY_1_BYTES = 107
_PROXY_2 = b"\r\n\r\n\0\r\nQUIT\n"


def proxy_header(data: bytes) -> Prelude | None:
    """Return the PROXY header at the beginning; None: more bytes decide it."""
    if b"PROXY ".startswith(data[:6]):
        found = _PROXY_1.match(data)
        if found is not None:
            return Prelude(found.end(), "PROXY header")
        return None if len(data) < _PROXY_1_BYTES and b"\n" not in data else NONE
    if not _PROXY_2.startswith(data[: len(_PROXY_2)]):
        return NONE
    if len(data) < 16:
        return None
    if data[12] >> 4 != 2:
        return NONE
    size = 16 + int.from_bytes(data[14:16], "big")
    return Prelude(size, "PROXY header") if len(data) >= size else None


def socks(side: Side, data: bytes) -> Prelude | None:
    """Return the messages of SOCKS at the beginning of a side; None: more bytes decide it."""
    try:
        size = (_client_size if side is Side.CLIENT else _server_size)(data)
    except IndexError:
        return None
    return Prelude(size, SOCKS) if size else NONE


def credentials(data: bytes) -> list[tuple[int, int]]:
    """Return where the names and the password are in a client's messages of SOCKS.

    ``data`` has them from their first byte to their last.
    """
    if data[0] == 4:
        return [(8, data.index(0, 8))]
    at = 2 + data[1]
    if data[at] != 1:
        return []
    name = at + 2
    password = name + data[at + 1] + 1
    return [(name, password - 1), (password, password + data[password - 1])]


def _client_size(data: bytes) -> int:
    if data[0] == 4:
        return _socks4_size(data)
    if data[0] != 5 or not 0 < data[1] <= 9 or any(method > 9 for method in data[2 : 2 + data[1]]):
        return 0
    at = 2 + data[1]
    if data[at] == 1:  # a name and a password (RFC 1929)
        at += 2 + data[at + 1]
        at += 1 + data[at]
    if data[at] != 5 or data[at + 1] not in (1, 2, 3) or data[at + 2]:
        return 0
    return _after_address(data, at + 3)


def _server_size(data: bytes) -> int:
    if data[0] == 0:
        return 8 if data[1] == 0x5A and data[7] >= 0 else 0
    if data[0] != 5 or data[1] not in (0, 2):
        return 0
    at = 2
    if data[at] == 1:
        if data[at + 1]:
            return 0
        at += 2
    if data[at] != 5 or data[at + 1] or data[at + 2]:
        return 0
    return _after_address(data, at + 3)


def _socks4_size(data: bytes) -> int:
    if data[1] not in (1, 2):
        return 0
    ip = data[4:8]
    at = _after_name(data, 8)
    return _after_name(data, at) if ip[:3] == bytes(3) and ip[3] else at


def _after_name(data: bytes, at: int) -> int:
    end = data.find(b"\0", at, at + 256)
    if end < 0:
        if len(data) >= at + 256:
            return 0
        raise IndexError
    return end + 1


def _after_address(data: bytes, at: int) -> int:
    kind = data[at]
    if kind not in (1, 3, 4):
        return 0
    size = {1: 4, 4: 16}.get(kind) or 1 + data[at + 1]
    after = at + 1 + size + 2
    data[after - 1]  # raises where it is not there yet
    return after
