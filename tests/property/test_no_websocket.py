"""Bytes of other protocols never prove that they are of WebSocket, also joined in the middle."""

import random
import ssl
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sslsniff.decoders.detect import Detector
from sslsniff.decoders.messages import Side

SIZE = 60_000


def protocol(*pieces: tuple[Side, bytes]) -> str:
    detector = Detector()
    for side, data in pieces:
        detector.feed(side, data)
    return detector.protocol


@pytest.mark.tools
@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 1 << 60), side=st.sampled_from(Side))
def test_random_bytes(seed: int, side: Side) -> None:
    """As of encrypted records."""
    assert protocol((side, random.Random(seed).randbytes(SIZE))) == "unknown"


@pytest.mark.tools
@settings(max_examples=200, deadline=None)
@given(
    tags=st.lists(st.integers(0, 255), min_size=1, max_size=3),
    texts=st.lists(st.binary(min_size=1, max_size=80), min_size=5, max_size=200),
    side=st.sampled_from(Side),
)
def test_tags_and_lengths(tags: list[int], texts: list[bytes], side: Side) -> None:
    """As in DER, Kafka, BGP, LDAP: a byte, a length, and so many bytes."""
    data = b"".join(bytes((tags[n % len(tags)], len(text))) + text for n, text in enumerate(texts))
    assert protocol((side, data)) in {"unknown", "http/1.1", "http/2"}


@pytest.mark.tools
@settings(max_examples=100, deadline=None)
@given(
    mean=st.integers(0, 255),
    deviation=st.integers(0, 40),
    seed=st.integers(0, 1 << 60),
    side=st.sampled_from(Side),
)
def test_sound(mean: int, deviation: int, seed: int, side: Side) -> None:
    """As of 8-bit audio, or silence."""
    at_random = random.Random(seed)
    data = bytes(round(at_random.gauss(mean, deviation)) & 255 for _ in range(SIZE))
    assert protocol((side, data)) != "websocket"


@pytest.mark.tools
@settings(max_examples=100, deadline=None)
@given(
    messages=st.lists(
        st.tuples(st.sampled_from(b"QPBDESCTZdcR123NIW"), st.binary(max_size=300)), max_size=100
    ),
    side=st.sampled_from(Side),
)
def test_messages_of_a_database(messages: list[tuple[int, bytes]], side: Side) -> None:
    """PostgreSQL's: a letter, a length of four bytes, and the rest."""
    data = b"".join(
        bytes((kind,)) + struct.pack(">I", len(rest) + 4) + rest for kind, rest in messages
    )
    assert protocol((side, data)) == "unknown"


def test_certificates() -> None:
    """Those of this machine's authorities."""
    context = ssl.create_default_context()
    certificates = context.get_ca_certs(binary_form=True)
    assert certificates
    assert protocol((Side.SERVER, b"".join(certificates))) == "unknown"
