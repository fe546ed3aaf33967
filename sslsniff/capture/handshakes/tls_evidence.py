"""Says by the first sends of a TLS socket whether application data passed, and to which server.

A handshake that fails, or that nothing follows, has no plaintext that a probe could miss. In TLS
1.3 parts of the handshake look like application data; their sizes distinguish them.
"""

from collections.abc import Iterator

from sslsniff.core.events import NotedSend, TlsSocket, TlsStart
from sslsniff.core.logged_secret import RANDOM_BYTES

# RFC 8446, section 5.1 and appendix B.3
_HEADER_BYTES = 5
_RANDOM = _HEADER_BYTES + 4 + 2  # after the message's type and length, and the version
_CHANGE_CIPHER_SPEC = 20
HANDSHAKE = 22
APPLICATION_DATA = 23
_CLIENT_HELLO = 1
SERVER_HELLO = 2
_CHANGE_CIPHER_SPEC_BYTES = _HEADER_BYTES + 1

ALERT_BYTES = 2 + 1 + 16
"""The size of an encrypted alert in TLS 1.3: the alert, its type, a tag."""
_FINISHED = {4 + digest + 1 + 16 for digest in (32, 48)}
"""The sizes of an encrypted Finished message, with SHA-256 and SHA-384."""
_ANSWERS = {
    change_cipher_spec + alert
    for change_cipher_spec in (0, _CHANGE_CIPHER_SPEC_BYTES)
    for alert in (0, _HEADER_BYTES + ALERT_BYTES)
}
"""How many bytes a client sends after its ClientHello if it does not finish the handshake."""
ANSWERS_WITH_FINISHED = {
    answer + _HEADER_BYTES + finished for answer in _ANSWERS for finished in _FINISHED
}
"""The same if it finishes the handshake, and sends no application data."""

_MORE_THAN_A_HANDSHAKE = 1 << 16  # bytes of one direction


def passed_data(found: TlsSocket) -> bool:
    """Say whether application data passed on a TLS socket; in doubt True."""
    if not found.sends:
        return False
    noted = sum(each.bytes for each in found.sends)
    if max(found.acknowledged - noted, found.received) > _MORE_THAN_A_HANDSHAKE:
        return True
    return _PROOFS[found.start](found.sends)


def data_ns(found: TlsSocket) -> int:
    """Return when application data, or what looks like it, was sent last, of what was noted."""
    return max((each.time_ns for each in found.sends if _has_data(each)), default=0)


def _has_data(send: NotedSend) -> bool:
    return any(kind == APPLICATION_DATA and size != ALERT_BYTES for kind, size, _ in records(send))


def _joined(sends: tuple[NotedSend, ...]) -> bool:
    return any(map(_has_data, sends))


def _client(sends: tuple[NotedSend, ...]) -> bool:
    """Look for records after the Finished message, before which there may be a certificate."""
    is_old = False
    sizes: list[int] = []
    for each in sends[1:]:
        for kind, size, message in records(each):
            is_old |= kind == HANDSHAKE and message != _CLIENT_HELLO
            if kind == APPLICATION_DATA and size != ALERT_BYTES:
                sizes.append(size)
    if is_old:  # before TLS 1.3 the types of records tell all
        return bool(sizes)
    finished = next((at for at, size in enumerate(sizes) if size in _FINISHED), 0)
    return len(sizes) > finished + 1


def _server(sends: tuple[NotedSend, ...]) -> bool:
    """Look for data that follows more than the client's part of the handshake."""
    before = 0
    for each in sends:
        for kind, size, message in records(each):
            if kind == HANDSHAKE and message == SERVER_HELLO:
                before = each.received
            elif (
                kind == APPLICATION_DATA
                and size != ALERT_BYTES
                and each.received - before not in _ANSWERS | ANSWERS_WITH_FINISHED
            ):
                return True
    return False


_PROOFS = {
    TlsStart.CLIENT_HELLO: _client,
    TlsStart.SERVER_HELLO: _server,
    TlsStart.HELLO_RECEIVED: _server,
    TlsStart.ALERT_SENT: _server,
    TlsStart.JOINED: _joined,
}


def records(send: NotedSend) -> Iterator[tuple[int, int, int]]:
    """Yield type and size of the records of a send as far as it is known, and the message's type.

    The latter is 0 for an encrypted message. What follows the first record is taken for one record
    more, except after a ChangeCipherSpec.
    """
    head, rest = send.head, send.bytes
    if head[0] == _CHANGE_CIPHER_SPEC:
        head, rest = head[_CHANGE_CIPHER_SPEC_BYTES:], rest - _CHANGE_CIPHER_SPEC_BYTES
    if rest < _HEADER_BYTES:
        return
    kind, size = head[0], int.from_bytes(head[3:5])
    # After a ChangeCipherSpec a message may be encrypted, so that it begins with any byte.
    is_message = head is send.head or int.from_bytes(head[6:9]) + 4 == size
    yield kind, size, head[5] if is_message else 0
    rest -= _HEADER_BYTES + size
    if kind == APPLICATION_DATA and rest > _HEADER_BYTES:
        yield kind, rest - _HEADER_BYTES, 0


def client_random(hello: bytes) -> bytes:
    """Return the random in a record with a ClientHello; empty: it is cut off before."""
    random = hello[_RANDOM : _RANDOM + RANDOM_BYTES]
    return random if len(random) == RANDOM_BYTES else b""


def server_name(hello: bytes) -> str | None:
    """Return the server name in a record with a ClientHello, or in the beginning of one.

    RFC 8446 section 4.1.2 and RFC 6066 section 3. None: it has none, or it is cut off before.
    """
    at = _RANDOM + RANDOM_BYTES
    try:
        at += 1 + hello[at]  # session id
        at += 2 + int.from_bytes(hello[at : at + 2])  # cipher suites
        at += 1 + hello[at] + 2  # compression methods, length of the extensions
    except IndexError:
        return None
    while at + 4 <= len(hello):
        kind, size = int.from_bytes(hello[at : at + 2]), int.from_bytes(hello[at + 2 : at + 4])
        at += 4
        if kind == 0:
            name = hello[at + 5 : at + size]
            is_whole = size > 5 and len(name) == size - 5
            return name.decode("ascii", "replace") if is_whole else None
        at += size
    return None
