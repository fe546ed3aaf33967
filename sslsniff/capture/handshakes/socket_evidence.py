"""Says what the first sends and receives of a TLS socket tell of its handshake's end."""

from collections.abc import Callable

from sslsniff.capture.handshakes.tls_evidence import (
    ALERT_BYTES,
    ANSWERS_WITH_FINISHED,
    APPLICATION_DATA,
    HANDSHAKE,
    SERVER_HELLO,
    records,
)
from sslsniff.core.events import TlsSocket, TlsStart
from sslsniff.core.handshakes import HandshakeFacts

_ALERT = 21
_CLEAR_ALERT_SIZE = bytes((0, 2))
_DESCRIPTION = 6  # of an alert's record: after its header and the alert's level


def facts_of(found: TlsSocket) -> HandshakeFacts:
    """Return what is known of the handshake on a TLS socket without data.

    If neither sends nor receives were seen, they passed unseen.
    """
    is_counted = bool(found.sends or found.received) and (found.has_ended or found.ended_ns)
    received = found.received if is_counted else None
    return HandshakeFacts(
        sent_alert=_sent_alert(found),
        received_alert=found.received_alert,
        sent_encrypted=_sent_encrypted_alert(found),
        answer=found.answer,
        received=received,
        ending=found.ending,
        is_complete=found.is_complete or _IS_COMPLETE[found.start](found),
    )


def _sent_alert(found: TlsSocket) -> int | None:
    """Return the number of the alert that was sent in clear."""
    for each in found.sends:
        head = each.head[: each.bytes]
        if (
            head[:1] == bytes([_ALERT])
            and head[3:5] == _CLEAR_ALERT_SIZE
            and len(head) > _DESCRIPTION
        ):
            return head[_DESCRIPTION]
    return None


def _sent_encrypted_alert(found: TlsSocket) -> bool:
    """Return whether an encrypted alert was sent last, by its size."""
    last = [*records(found.sends[-1])] if found.sends else []
    return bool(last) and last[-1][:2] == (APPLICATION_DATA, ALERT_BYTES)


def _client_is_complete(found: TlsSocket) -> bool:
    """Return whether the client sent its Finished message, which is encrypted."""
    return any(
        (kind == HANDSHAKE and not message) or (kind == APPLICATION_DATA and size != ALERT_BYTES)
        for each in found.sends[1:]
        for kind, size, message in records(each)
    )


def _server_is_complete(found: TlsSocket) -> bool:
    """Return whether the server got the client's Finished message, or sent its own after it."""
    before = None
    for each in found.sends:
        for kind, _, message in records(each):
            if kind == HANDSHAKE and message == SERVER_HELLO:
                before = each.received
            elif kind == HANDSHAKE and not message:  # encrypted, before TLS 1.3
                return True
    return before is not None and found.received - before in ANSWERS_WITH_FINISHED


_IS_COMPLETE: dict[TlsStart, Callable[[TlsSocket], bool]] = {
    TlsStart.CLIENT_HELLO: _client_is_complete,
    TlsStart.SERVER_HELLO: _server_is_complete,
    TlsStart.HELLO_RECEIVED: _server_is_complete,
    TlsStart.JOINED: lambda _: True,
    TlsStart.ALERT_SENT: lambda _: False,
}
