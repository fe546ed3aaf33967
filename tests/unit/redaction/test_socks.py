"""Credentials of SOCKS before a connection's protocol, and headers of the PROXY protocol."""

import random

import pytest

from sslsniff.redaction import redactor
from tests.unit.captures import READ, REQUEST, RESPONSE, WRITE, Step
from tests.unit.decoders.test_preludes import (
    GRANTED_4,
    GRANTED_5,
    LOCAL_2,
    PROXY_1,
    PROXY_2,
    SOCKS_4,
    SOCKS_5,
)
from tests.unit.redaction.test_redaction import joined, redact
from tests.unit.redaction.traffic import cut

LOG_IN = b"\x01\4name\x0bs3cr3t word"
BLANKED_LOG_IN = b"\x01\4****\x0b***********"
LOGGED_IN: list[Step] = [
    *((WRITE, b"\x05\2\0\2"), (READ, b"\x05\2"), (WRITE, LOG_IN), (READ, b"\1\0")),
    *((WRITE, SOCKS_5[2]), (READ, GRANTED_5)),
]
EXCHANGE: list[Step] = [
    (WRITE, REQUEST[:-2] + b"Authorization: s3cr3t word\r\n\r\n"),
    (READ, RESPONSE),
]
PRELUDES: dict[str, list[Step]] = {
    "none": [],
    "PROXY 1": [(WRITE, PROXY_1)],
    "PROXY 2": [(WRITE, PROXY_2)],
    "PROXY 2, of a health check": [(WRITE, LOCAL_2)],
    "SOCKS 4": [(WRITE, SOCKS_4.replace(b"user", b"s3cr3t word")), (READ, GRANTED_4)],
    "SOCKS 5": [(WRITE, SOCKS_5[0]), (READ, SOCKS_5[1]), (WRITE, SOCKS_5[2]), (READ, GRANTED_5)],
    "SOCKS 5 with a password": LOGGED_IN,
    "SOCKS 5 without a name": [
        (direction, data.replace(b"\4name", b"\0"))
        if isinstance(data, bytes)
        else (direction, data)
        for direction, data in LOGGED_IN
    ],
}


@pytest.mark.parametrize("name", PRELUDES)
def test_credentials_are_blanked_in_any_pieces(name: str) -> None:
    steps = [*PRELUDES[name], *EXCHANGE]
    expected = joined(steps, WRITE).replace(LOG_IN, BLANKED_LOG_IN)
    expected = expected.replace(b"s3cr3t word", b"***********")
    single = [(side, data[at : at + 1]) for side, data in steps for at in range(len(data))]  # type: ignore[arg-type, index]
    for pieces in (steps, single, *(cut(steps, random.Random(seed)) for seed in range(30))):
        received, rules = redact(pieces)
        assert received.plaintext(WRITE) == expected
        assert received.plaintext(READ) == joined(steps, READ)
        assert rules.blanked.unread_bytes == 0


@pytest.mark.slow
def test_a_loss_in_the_handshake_shows_no_password() -> None:
    client = joined(LOGGED_IN, WRITE)
    answers = joined([*LOGGED_IN, *EXCHANGE], READ)
    for at in range(len(client)):
        for size in range(1, len(client) - at):
            lossy: list[Step] = [(WRITE, client[:at]), (WRITE, size)]
            lossy += [(WRITE, client[at + size :]), EXCHANGE[0], (READ, answers)]
            received, _ = redact(lossy)
            plaintext = received.plaintext(WRITE)
            assert b"word" not in plaintext, (at, size)
            assert b"s3cr3t" not in plaintext, (at, size)


@pytest.mark.parametrize("limit", [150, 300, 600])
def test_a_handshake_that_waits_too_long_shows_no_password(
    limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first bytes are blanked; then its size says nothing about the bytes after them."""
    monkeypatch.setattr(redactor, "_UNDECIDED_BYTES", limit)
    steps = [*LOGGED_IN, *EXCHANGE]
    for seed in range(30):
        received, _ = redact(cut(steps, random.Random(seed)))
        assert b"word" not in received.plaintext(WRITE)
        assert len(received.plaintext(WRITE)) == len(joined(steps, WRITE))


@pytest.mark.parametrize("at", range(12))
def test_a_handshake_without_room_shows_no_password(
    at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes of all connections are blanked where they take too much memory, at any of them."""
    steps = [*LOGGED_IN, *EXCHANGE]
    size = sum(len(data) for _, data in steps[:at] if isinstance(data, bytes))
    monkeypatch.setattr(redactor, "HELD_BYTES", size * 4)
    monkeypatch.setattr(redactor, "_HELD_AFTER_BYTES", 0)
    received, _ = redact(cut(steps, random.Random(at)))
    assert b"word" not in received.plaintext(WRITE)
