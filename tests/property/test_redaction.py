"""Secrets planted wherever a protocol has room for one, in any pieces, pass nowhere."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sslsniff.decoders.inner.websocket import unmask
from tests.property.planted_bodies import BODIES, SECRET, SHOWN
from tests.property.planted_connections import DATABASES, PROTOCOLS
from tests.unit.captures import READ, WRITE, Step
from tests.unit.redaction.test_redaction import Received, forms, joined, redact
from tests.unit.redaction.traffic import cut

pytestmark = pytest.mark.tools

FORMS = [form for form in forms(SECRET.encode()) if form]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("body", BODIES)
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_no_planted_secret_passes(protocol: str, body: str, data: st.DataObject) -> None:
    steps = data.draw(st.composite(lambda draw: PROTOCOLS[protocol](draw, BODIES[body](draw)))())
    received = _redacted(steps, data, is_websocket=protocol == "websocket")
    if protocol == "http1" and body in {"json_body", "form", "graphql"}:
        assert SHOWN.encode() not in joined(steps, WRITE) or SHOWN.encode() in _all(received)


@pytest.mark.parametrize("database", DATABASES)
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_no_byte_of_a_database_passes(database: str, data: st.DataObject) -> None:
    steps = data.draw(st.composite(DATABASES[database])())
    _redacted(steps, data, is_websocket=False)


def _redacted(steps: list[Step], data: st.DataObject, *, is_websocket: bool) -> Received:
    """Redact the steps in any pieces; assert that no secret passes, and that every length stays."""
    whole, _ = redact(steps)
    received, _ = redact(cut(steps, random.Random(data.draw(st.integers(0, 1 << 30)))))
    for direction in (WRITE, READ):
        shown = received.plaintext(direction)
        assert len(shown) == len(joined(steps, direction))
        assert shown == whole.plaintext(direction)
        seen = _unmasked(shown) if is_websocket and direction is WRITE else shown
        assert [form for form in FORMS if form in seen] == [], seen
    return received


def _all(received: Received) -> bytes:
    return received.plaintext(WRITE) + received.plaintext(READ)


def _unmasked(shown: bytes) -> bytes:
    """The messages in the frames after the head."""
    at, out = shown.index(b"\r\n\r\n") + 4, b""
    while at < len(shown):
        size = shown[at + 1] & 0x7F
        out += unmask(shown[at + 6 : at + 6 + size], shown[at + 2 : at + 6], 0)
        at += 6 + size
    return out
