"""How a handshake ended follows from alerts, errors and the end of the TCP connection."""

from typing import Any

import pytest

from sslsniff.core.handshakes import (
    HandshakeEnd,
    HandshakeFacts,
    SocketEnding,
    explain,
    implied_role,
)
from sslsniff.decoders.messages import Side

CLIENT, SERVER = Side.CLIENT, Side.SERVER
CASES: tuple[tuple[Side | None, dict[str, Any], str, str], ...] = (
    (
        CLIENT,
        {"sent_alert": 48, "error": "self-signed certificate"},
        "untrusted",
        "the client does not trust the certificate of the server"
        " (alert 48, unknown CA; self-signed certificate)",
    ),
    (
        SERVER,
        {"received_alert": 48, "ending": SocketEnding.PEER_CLOSED},
        "untrusted",
        "the client does not trust the certificate of the server (alert 48, unknown CA)",
    ),
    # The alert alone says less than the library.
    (
        CLIENT,
        {"sent_alert": 42, "kind": "wrong_name", "error": "hostname mismatch"},
        "wrong_name",
        "the certificate of the server is not for the name that the client asked for"
        " (alert 42, bad certificate; hostname mismatch)",
    ),
    (
        CLIENT,
        {"received_alert": 112},
        "unknown_name",
        "the server does not know the server name test.example (alert 112, unrecognized name)",
    ),
    (
        SERVER,
        {"sent_alert": 200},
        "alert",
        "the server ended the handshake (alert 200, unknown alert)",
    ),
    # An answer to the peer's end is not its cause.
    (
        CLIENT,
        {"sent_alert": 80, "ending": SocketEnding.PEER_RESET},
        "reset",
        "the server reset the TCP connection",
    ),
    (
        CLIENT,
        {"sent_alert": 70, "answer": b"HTTP/1.1 400 Bad"},
        "plaintext",
        "the server does not speak TLS: HTTP in clear came",
    ),
    (
        CLIENT,
        {"answer": b"220 mail.example"},
        "plaintext",
        "the server does not speak TLS: something else came",
    ),
    (
        SERVER,
        {"sent_alert": 50, "answer": b"OPTIONS "},
        "plaintext",
        "the client does not speak TLS: HTTP in clear came",
    ),
    (
        CLIENT,
        {"received_alert": 49},
        "refused",
        "the server refused the client (alert 49, access denied)",
    ),
    # BoringSSL's error says only that a certificate is bad, the alert says more, or as much.
    *(
        (
            CLIENT,
            {"sent_alert": alert, "kind": "bad_certificate", "error": "certificate verify failed"},
            kind,
            f"{text} (alert {alert}, {name}; certificate verify failed)",
        )
        for alert, name, kind, text in (
            (
                48,
                "unknown CA",
                "untrusted",
                "the client does not trust the certificate of the server",
            ),
            (
                46,
                "certificate unknown",
                "bad_certificate",
                "the client does not accept the certificate of the server",
            ),
            (
                40,
                "handshake failure",
                "bad_certificate",
                "the client does not accept the certificate of the server",
            ),
        )
    ),
    (
        SERVER,
        {"kind": "plaintext", "error": "http request"},
        "plaintext",
        "the server got plaintext from the client, not TLS (http request)",
    ),
    (
        CLIENT,
        {"sent_alert": 50, "kind": "closed_by_peer", "error": "unexpected eof while reading"},
        "closed",
        "the server closed the connection during the handshake (unexpected eof while reading)",
    ),
    (
        CLIENT,
        {"received": 0, "ending": SocketEnding.CLOSED},
        "timeout",
        "the server did not answer",
    ),
    (
        CLIENT,
        {"sent_encrypted": True, "received": 700, "ending": SocketEnding.PEER_CLOSED},
        "alert",
        "the client ended the handshake (encrypted alert)",
    ),
    (CLIENT, {"ending": SocketEnding.TIMED_OUT}, "timeout", "the server did not answer"),
    (
        SERVER,
        {"received": 517, "ending": SocketEnding.RESET},
        "reset",
        "the server reset the TCP connection",
    ),
    (
        None,
        {"received": 517, "ending": SocketEnding.PEER_CLOSED},
        "closed",
        "the other side closed the connection during the handshake",
    ),
)


@pytest.mark.parametrize(("role", "facts", "kind", "text"), CASES)
def test_failures(role: Side | None, facts: dict[str, Any], kind: str, text: str) -> None:
    end = explain(HandshakeFacts(**facts), role, "test.example")
    assert (end.kind, end.text, end.is_failure) == (kind, text, True)


@pytest.mark.parametrize(
    ("facts", "kind"),
    [
        ({"is_complete": True, "ending": SocketEnding.CLOSED, "received": 2000}, "unused"),
        ({"is_complete": True}, "unused"),
        ({}, "unfinished"),
    ],
)
def test_what_is_no_failure(facts: dict[str, Any], kind: str) -> None:
    end = explain(HandshakeFacts(**facts), CLIENT, None)
    assert (end.kind, end.is_failure) == (kind, False)


@pytest.mark.parametrize(
    ("facts", "role"),
    [
        (HandshakeFacts(received_alert=116), CLIENT),
        (HandshakeFacts(sent_alert=112), SERVER),
        (HandshakeFacts(sent_alert=48), None),
        (HandshakeFacts(), None),
    ],
)
def test_a_role_that_an_alert_implies(facts: HandshakeFacts, role: Side | None) -> None:
    assert implied_role(facts) is role


def test_a_certificate_that_may_have_been_accepted() -> None:
    """The handshake was completed, so the client may ignore what OpenSSL found."""
    facts = HandshakeFacts(kind="untrusted", error="self-signed certificate", is_complete=True)
    assert explain(facts, CLIENT, None) == HandshakeEnd(
        "unused",
        "the handshake was completed, and no data followed (self-signed certificate)",
        is_failure=False,
    )


def test_a_reset_after_the_handshake_is_a_failure() -> None:
    facts = HandshakeFacts(is_complete=True, ending=SocketEnding.PEER_RESET, received=2000)
    assert explain(facts, CLIENT, None).kind == "reset"
