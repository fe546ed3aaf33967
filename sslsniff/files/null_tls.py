"""TLS 1.2 with a NULL cipher: plaintext in a form that Wireshark shows on every port.

The handshake is made up (RFC 5246 section 7.4); records carry plaintext and, in place of the
MD5 code of TLS_RSA_WITH_NULL_MD5, 16 zero bytes, which no dissector checks.

Known limit: inside TLS, Wireshark 4.0 does not dissect a response whose body lasts until the
connection closes, and a close_notify alert does not help; plain TCP shows it.
"""

import struct
from typing import NamedTuple

MAC_BYTES = 16
"""Length of the zeros after the plaintext of each record."""

LARGEST_RECORD_BYTES = 16 << 10
"""Most plaintext in a record (RFC 5246 section 6.2.1)."""

HTTP_PORTS = frozenset((80, 1900, 2710, 2869, 3128, 3132, 5985, 8080, 8088, 11371))
"""Server ports at which Wireshark (3.x to 4.x, ``http.tcp.port``) sees HTTP and never TLS.

It recognises HTTP and HTTP/2 in plain TCP on these ports only, so they get plain TCP in both
layouts. On ports of other protocols, such as 5432, it sees neither; measured with 4.0.
"""

_CHANGE_CIPHER_SPEC, _ALERT, _HANDSHAKE, _APPLICATION_DATA = 20, 21, 22, 23
_CLIENT_HELLO, _SERVER_HELLO, _SERVER_HELLO_DONE = 1, 2, 14
_SERVER_NAME, _ALPN = 0, 16
_VERSION = 0x0303
_NULL_MD5 = 0x0001
_HEADER_BYTES = 5
_LARGEST_SEEN_BYTES = LARGEST_RECORD_BYTES + 2048
_RANDOM_FROM_START = b"sslsniff made this up"
_RANDOM_JOINED = b"sslsniff joined later"

RECORD_BYTES = _HEADER_BYTES + MAC_BYTES
"""How much longer a record is than its plaintext."""

_RECORD = struct.Struct(">BHH")


def record_header(size: int) -> bytes:
    """Return the header of a record with ``size`` bytes of plaintext."""
    return _RECORD.pack(_APPLICATION_DATA, _VERSION, size + MAC_BYTES)


def alert(number: int) -> bytes:
    """Return the record of an alert; all but close_notify, 0, are fatal (RFC 8446 section 6)."""
    level = 2 if number else 1
    return _RECORD.pack(_ALERT, _VERSION, 2 + MAC_BYTES) + bytes((level, number)) + bytes(MAC_BYTES)


def client_hello(sni: str | None, alpn: str | None, from_start: bool) -> bytes:
    """Return the client's first flight; its random bytes say that sslsniff made it."""
    extensions = b""
    if sni:
        name = sni.encode()[:255]
        extensions += _extension(
            _SERVER_NAME, struct.pack(">HBH", len(name) + 3, 0, len(name)) + name
        )
    extensions += _alpn_extension(alpn)
    random = (_RANDOM_FROM_START if from_start else _RANDOM_JOINED).ljust(32, b"\0")
    body = struct.pack(">H32sBHHBB", _VERSION, random, 0, 2, _NULL_MD5, 1, 0)
    return _handshake(_CLIENT_HELLO, body + struct.pack(">H", len(extensions)) + extensions)


def server_hello(alpn: str | None) -> bytes:
    """Return the server's first flight: ServerHello and ServerHelloDone."""
    extensions = _alpn_extension(alpn)
    random = _RANDOM_FROM_START.ljust(32, b"\0")
    body = struct.pack(">H32sBHB", _VERSION, random, 0, _NULL_MD5, 0)
    return _handshake(
        _SERVER_HELLO, body + struct.pack(">H", len(extensions)) + extensions
    ) + _handshake(_SERVER_HELLO_DONE, b"")


CHANGE_CIPHER_SPEC = _RECORD.pack(_CHANGE_CIPHER_SPEC, _VERSION, 1) + b"\x01"
"""What each side sends before its first record of plaintext."""


def _handshake(kind: int, body: bytes) -> bytes:
    message = struct.pack(">I", kind << 24 | len(body)) + body
    return _RECORD.pack(_HANDSHAKE, _VERSION, len(message)) + message


def _extension(kind: int, body: bytes) -> bytes:
    return struct.pack(">HH", kind, len(body)) + body


def _alpn_extension(alpn: str | None) -> bytes:
    if not alpn:
        return b""
    name = alpn.encode()[:255]
    return _extension(_ALPN, struct.pack(">HB", len(name) + 1, len(name)) + name)


class Hello(NamedTuple):
    """What a ClientHello or ServerHello says."""

    null: bool
    """Whether NULL_MD5 is the cipher: the only one offered, or the one chosen."""
    sni: str | None = None
    alpn: str | None = None
    from_start: bool = True


def read_hello(data: bytes) -> Hello | None:
    """Return the hello that a stream begins with; None if it begins with anything else.

    Raises ``IndexError`` while ``data``, the stream so far, is too short to decide.
    """
    if data[:1] != bytes([_HANDSHAKE]) or data[1:2] not in (b"", b"\x03"):
        return None
    if len(data) < _HEADER_BYTES + 4:
        raise IndexError
    _, _, size = _RECORD.unpack_from(data)
    kind = data[_HEADER_BYTES]
    if kind not in (_CLIENT_HELLO, _SERVER_HELLO) or size > _LARGEST_SEEN_BYTES:
        return None
    if len(data) < _HEADER_BYTES + size:
        raise IndexError
    try:
        return _parse_hello(kind, data[_HEADER_BYTES + 4 : _HEADER_BYTES + size])
    except (struct.error, IndexError):
        return Hello(null=False)


def _parse_hello(kind: int, body: bytes) -> Hello:
    random = body[2:34]
    at = 35 + body[34]
    if kind == _CLIENT_HELLO:
        (size,) = struct.unpack_from(">H", body, at)
        null = body[at + 2 : at + 2 + size] == struct.pack(">H", _NULL_MD5)
        at += 2 + size
        at += 1 + body[at]
    else:
        null = struct.unpack_from(">H", body, at)[0] == _NULL_MD5
        at += 3
    sni = alpn = None
    at += 2
    while at + 4 <= len(body):
        extension, size = struct.unpack_from(">HH", body, at)
        value = body[at + 4 : at + 4 + size]
        if extension == _SERVER_NAME and kind == _CLIENT_HELLO:
            sni = value[5:].decode("utf-8", "replace") or None
        elif extension == _ALPN:
            alpn = value[3 : 3 + value[2]].decode("utf-8", "replace") or None
        at += 4 + size
    return Hello(null, sni, alpn, not random.startswith(_RANDOM_JOINED))


def is_null_record(data: bytes) -> bool:
    """Return whether ``data`` begins with a whole record of ours, its handshake not captured."""
    if len(data) < _HEADER_BYTES + MAC_BYTES:
        return False
    kind, version, size = _RECORD.unpack_from(data)
    end = _HEADER_BYTES + size
    return (
        kind == _APPLICATION_DATA
        and version == _VERSION
        and MAC_BYTES <= size <= _LARGEST_SEEN_BYTES
        and len(data) >= end
        and not any(data[end - MAC_BYTES : end])
    )


class Unwrapper:
    """Extracts the plaintext from one side's stream of a NULL-cipher session.

    Memory: one record at most.
    """

    def __init__(self) -> None:
        self._partial = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Return the plaintext of the records that ``data`` completes."""
        data = self._partial + data if self._partial else data
        plain: list[bytes] = []
        at = 0
        while len(data) - at >= _HEADER_BYTES:
            kind, version, size = _RECORD.unpack_from(data, at)
            if version >> 8 != 3 or size > _LARGEST_SEEN_BYTES:
                # After a gap, in the middle of a record: wait for the beginning of the next one.
                at = len(data)
                break
            end = at + _HEADER_BYTES + size
            if end > len(data):
                break
            if kind == _APPLICATION_DATA and size > MAC_BYTES:
                plain.append(data[at + _HEADER_BYTES : end - MAC_BYTES])
            at = end
        self._partial = data[at:]
        return plain

    def gap(self, missing: int) -> int:
        """Note that ``missing`` bytes of the stream are lost; return how many were plaintext.

        The number is exact for one lost record. Each of our packets begins with a record, so the
        next one begins right after a lost packet.
        """
        missing += len(self._partial)
        self._partial = b""
        record = _HEADER_BYTES + LARGEST_RECORD_BYTES + MAC_BYTES
        records = -(-missing // record)
        return max(missing - records * (_HEADER_BYTES + MAC_BYTES), 0)
