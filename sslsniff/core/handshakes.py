"""Says in words how a TLS handshake ended after which no data passed.

What is known of the end has several sources, of which any may be missing: alerts, which the library
or the kernel saw; the library's own error; the bytes that came instead of TLS; and how the TCP
connection ended. The first that says why wins, in this order:

1. What came instead of TLS.
2. An alert. Its number says what its sender found wrong, and the library's error may say more: both
   an unknown issuer and another host's certificate are "bad certificate" to some libraries.
3. The library's error, where no alert was sent or received.
4. The end of the TCP connection. If the peer ended it, that wins over an alert of the watched
   process that says only that there was an error.

In TLS 1.3 alerts after the ServerHello are encrypted, so only a library that is probed knows them.
Without it, the size of what the watched process sent last shows that it was one.
"""

from enum import IntEnum
from typing import NamedTuple

from sslsniff.decoders.messages import Side


class SocketEnding(IntEnum):
    """How the TCP connection of a socket began to end: ``enum socket_ending`` of ``bpf/event.h``.

    ``CLOSED``, ``RESET``: by the watched process. ``TIMED_OUT``: the peer acknowledged nothing.
    """

    UNKNOWN = 0
    CLOSED = 1
    PEER_CLOSED = 2
    RESET = 3
    PEER_RESET = 4
    TIMED_OUT = 5


class HandshakeFacts(NamedTuple):
    """What is known of a handshake's end, as the watched process sees it.

    ``sent_alert``, ``received_alert``: numbers (RFC 8446, section 6). ``kind``: a key of
    ``_KINDS``, by the library's error, and ``error``: that error in the library's words.
    ``sent_encrypted``: the last that was sent has the size of an encrypted alert.
    ``answer``: the first bytes that were received. ``received``: how many bytes were, None if that
    is not known. ``is_complete``: the watched process sent its last message of the handshake.
    ``role``: of the watched process, as the library's error implies it.
    """

    sent_alert: int | None = None
    received_alert: int | None = None
    kind: str | None = None
    error: str | None = None
    sent_encrypted: bool = False
    answer: bytes = b""
    received: int | None = None
    ending: SocketEnding = SocketEnding.UNKNOWN
    is_complete: bool = False
    role: Side | None = None


class HandshakeEnd(NamedTuple):
    """How a handshake ended.

    ``kind``: a short name that stays the same. ``text``: for people. ``is_failure``: False where
    it was completed, or may be.
    """

    kind: str
    text: str
    is_failure: bool


UNUSED = "unused"
UNFINISHED = "unfinished"

CLOSED_BY_PEER = "closed_by_peer"

_KINDS = {
    "untrusted": "{sender} does not trust the certificate of {other}",
    "expired": "the certificate of {other} has expired, or is not valid yet, says {sender}",
    "wrong_name": "the certificate of {other} is not for the name that {sender} asked for",
    "bad_certificate": "{sender} does not accept the certificate of {other}",
    "no_shared_version": "{sender} accepts no TLS version that {other} has",
    "no_shared_cipher": "{sender} accepts no cipher that {other} has",
    "no_shared_protocol": "{sender} speaks no application protocol that {other} has (ALPN)",
    "refused": "{sender} refused: nothing in common with {other}, such as a cipher",
    "denied": "{sender} refused {other}",
    "client_certificate": "{sender} requires a certificate of {other}",
    "unknown_name": "{sender} does not know the server name {name}",
    "plaintext": "{sender} got plaintext from {other}, not TLS",
    "closed": "{sender} closed the connection during the handshake",
    CLOSED_BY_PEER: "{other} closed the connection during the handshake",
    "alert": "{sender} ended the handshake",
}
"""The kind of a failure -> what its alert's sender, or whose library found it, says by it."""

_ALERTS = {
    0: ("close notify", "closed"),
    10: ("unexpected message", "alert"),
    20: ("bad record MAC", "alert"),
    22: ("record overflow", "alert"),
    40: ("handshake failure", "refused"),
    42: ("bad certificate", "bad_certificate"),
    43: ("unsupported certificate", "bad_certificate"),
    44: ("certificate revoked", "bad_certificate"),
    45: ("certificate expired", "expired"),
    46: ("certificate unknown", "bad_certificate"),
    47: ("illegal parameter", "alert"),
    48: ("unknown CA", "untrusted"),
    49: ("access denied", "denied"),
    50: ("decode error", "alert"),
    51: ("decrypt error", "alert"),
    70: ("protocol version", "no_shared_version"),
    71: ("insufficient security", "no_shared_cipher"),
    80: ("internal error", "alert"),
    86: ("inappropriate fallback", "no_shared_version"),
    90: ("user canceled", "closed"),
    109: ("missing extension", "alert"),
    110: ("unsupported extension", "alert"),
    112: ("unrecognized name", "unknown_name"),
    113: ("bad certificate status response", "bad_certificate"),
    115: ("unknown PSK identity", "alert"),
    116: ("certificate required", "client_certificate"),
    120: ("no application protocol", "no_shared_protocol"),
}
"""Number -> its name and the kind of failure that it means (RFC 8446, section 6 and B.2)."""


def alert_name(number: int) -> str:
    """Return the name of an alert (RFC 8446, section B.2)."""
    return _ALERTS.get(number, ("unknown alert", ""))[0]


HANDSHAKE_ALERTS = frozenset(
    number for number, (_, kind) in _ALERTS.items() if kind not in ("alert", "closed")
)
"""Alerts that say that a handshake failed, also where one side has sent data already: a client of
TLS 1.3 does not wait for the server's look at its certificate."""

_SERVER_ALERTS = (112, 116, 120)

_WITHOUT_ALERT = (CLOSED_BY_PEER, "plaintext")
"""Failures at which a library sends an alert that says something else."""
_BY_PEER = (SocketEnding.PEER_CLOSED, SocketEnding.PEER_RESET, SocketEnding.TIMED_OUT)
"""What some libraries answer with an alert that says only that there was an error."""
_SHORTER = {CLOSED_BY_PEER: "closed", "denied": "refused"}

_OF_CERTIFICATES = ("untrusted", "expired")
"""What an alert says of a certificate where the library's error only says that it is bad."""

_TLS_RECORDS = range(20, 25)
_METHODS = (b"GET", b"POST", b"PUT", b"HEAD", b"PATCH", b"DELETE", b"OPTIONS", b"CONNECT")
_HTTP = (b"HTTP/", *(each + b" " for each in _METHODS))
"""How a response or a request in clear begins."""
_OWN, _OTHER = "this side", "the other side"


def implied_role(facts: HandshakeFacts) -> Side | None:
    """Return the role of the watched process, if only one side has such an error or alert."""
    if facts.role is not None:
        return facts.role
    if facts.received_alert in _SERVER_ALERTS:
        return Side.CLIENT
    return Side.SERVER if facts.sent_alert in _SERVER_ALERTS else None


def explain(facts: HandshakeFacts, role: Side | None, name: str | None) -> HandshakeEnd:
    """Return how the handshake of a process that is ``role`` ended; ``name``: the server's."""
    own = f"the {role.value}" if role else _OWN
    other = f"the {role.other.value}" if role else _OTHER
    if facts.answer and facts.answer[0] not in _TLS_RECORDS:
        what = "HTTP in clear" if facts.answer.startswith(_HTTP) else "something else"
        return HandshakeEnd(
            "plaintext", f"{other} does not speak TLS: {what} came", is_failure=True
        )
    by_connection = _by_connection(facts, own, other)
    alert = None if facts.kind in _WITHOUT_ALERT else _by_alert(facts, own, other, name)
    is_vague = facts.received_alert is None and facts.ending in _BY_PEER
    if alert and not (alert.kind == "alert" and is_vague):
        return alert
    if by_connection.kind == UNUSED:  # what was found of the certificate may have been accepted
        text = f"{by_connection.text} ({facts.error})" if facts.error else by_connection.text
        return by_connection._replace(text=text)
    if known := _by_library(facts, own, other, name):
        return known
    if facts.sent_encrypted:
        return HandshakeEnd(
            "alert", f"{own} ended the handshake (encrypted alert)", is_failure=True
        )
    return by_connection


def _by_alert(facts: HandshakeFacts, own: str, other: str, name: str | None) -> HandshakeEnd | None:
    """Return what an alert says; the one that was received came first."""
    for number, sender, peer in (
        (facts.received_alert, other, own),
        (facts.sent_alert, own, other),
    ):
        if number is not None:
            meaning, kind = _ALERTS.get(number, ("unknown alert", "alert"))
            said = f"alert {number}, {meaning}"
            if facts.kind not in (None, "bad_certificate") or kind not in _OF_CERTIFICATES:
                kind = facts.kind or kind
            return _found(kind, sender, peer, name, said, facts.error)
    return None


def _by_library(
    facts: HandshakeFacts, own: str, other: str, name: str | None
) -> HandshakeEnd | None:
    if facts.kind is None:
        return None
    return _found(facts.kind, own, other, name, facts.error)


def _found(
    kind: str, sender: str, other: str, name: str | None, *remarks: str | None
) -> HandshakeEnd:
    text = _KINDS[kind].format(sender=sender, other=other, name=name or "(none)")
    said = "; ".join(each for each in remarks if each)
    shown = f"{text} ({said})" if said else text
    return HandshakeEnd(_SHORTER.get(kind, kind), shown, is_failure=True)


def _by_connection(facts: HandshakeFacts, own: str, other: str) -> HandshakeEnd:
    """Return what the TCP connection says."""
    ending = facts.ending
    if ending is SocketEnding.TIMED_OUT or (
        facts.received == 0 and ending in (SocketEnding.CLOSED, SocketEnding.RESET)
    ):
        return HandshakeEnd("timeout", f"{other} did not answer", True)
    if facts.is_complete and ending is not SocketEnding.PEER_RESET:
        return HandshakeEnd(UNUSED, "the handshake was completed, and no data followed", False)
    if ending is SocketEnding.UNKNOWN:
        return HandshakeEnd(UNFINISHED, "the handshake is not finished", False)
    who = own if ending in (SocketEnding.CLOSED, SocketEnding.RESET) else other
    if ending in (SocketEnding.RESET, SocketEnding.PEER_RESET):
        return HandshakeEnd("reset", f"{who} reset the TCP connection", True)
    return HandshakeEnd("closed", f"{who} closed the connection during the handshake", True)
