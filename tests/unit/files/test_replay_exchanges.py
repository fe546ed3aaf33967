"""Plaintext TCP as networks and captures garble it: decoded to exchanges all the same."""

from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.inet import TCP
from scapy.layers.l2 import Ether

from sslsniff.core.exchanges.exchange_builder import ExchangeBuilder
from sslsniff.core.flows import Flows
from sslsniff.core.losses import LossCause
from sslsniff.core.model import Exchange
from sslsniff.core.sink import Sink, Summary
from sslsniff.files.replay import ReplaySource
from tests.unit.captures import READ, WRITE, Step, answer, get, http2_steps, post
from tests.unit.files.foreign import FAR, NEAR, Wire

MSS_BYTES = 1448
HANDSHAKE = 3  # packets
BODY = bytes(range(256)) * 40

Packets = list[Ether]
Said = tuple[object, object]
"""A request as method, target and body, and a response as status and body; or None."""


class Decoded(Sink):
    """The exchanges of a capture, and its figures."""

    wants_bodies = True

    def __init__(self, packets: Packets, path: Path) -> None:
        self.exchanges: list[Exchange] = []
        wire = Wire()
        wire.packets = packets
        wire.write(path)
        source, builder = ReplaySource(path), ExchangeBuilder([self])
        flows = Flows(source.libraries, builder)
        for event in source:
            flows.handle(event)
        builder.finish()

    def exchange(self, exchange: Exchange) -> None:
        self.exchanges.append(exchange)

    def summary(self, summary: Summary) -> None:
        self.lost_bytes = {loss.cause: loss.bytes for loss in summary.losses}

    def said(self) -> list[Said]:
        return [
            (
                each.request and (each.request.method, each.request.target, each.request.body.data),
                each.response and (each.response.status, each.response.body.data),
            )
            for each in self.exchanges
        ]


def capture(steps: list[Step]) -> Packets:
    wire = Wire()
    wire.handshake()
    for direction, data in steps:
        assert isinstance(data, bytes)
        sender, receiver = (NEAR, FAR) if direction is WRITE else (FAR, NEAR)
        for start in range(0, len(data), MSS_BYTES):
            wire.send(sender, data[start : start + MSS_BYTES])
        wire.send(receiver)
    wire.end()
    return wire.packets


FIRST, SECOND, THIRD, FOURTH = (
    (("GET", "/first", b""), (200, b"1")),
    (("GET", "/second", b""), (200, b"2")),
    (("POST", "/third", BODY), (404, b"")),
    (("GET", "/fourth", b""), (200, BODY)),
)
SENT: dict[str, tuple[Packets, list[Said]]] = {
    "http1": (
        capture(
            [
                (WRITE, get("/first") + get("/second")),
                (READ, answer(b"1") + answer(b"2")),
                (WRITE, post("/third", BODY)),
                (READ, answer(b"", "404 Not Found")),
                (WRITE, get("/fourth")),
                (READ, answer(BODY)),
            ]
        ),
        [FIRST, SECOND, THIRD, FOURTH],
    ),
    "http2": (
        capture(http2_steps(3, BODY)),
        [(("GET", f"/{number}", b""), (200, BODY)) for number in range(3)],
    ),
}
every_protocol = pytest.mark.parametrize("protocol", SENT)


def is_from(end: tuple[str, int], packet: Ether) -> bool:
    return bool(packet[TCP].sport == end[1])


@every_protocol
def test_as_sent(protocol: str, tmp_path: Path) -> None:
    packets, sent = SENT[protocol]
    assert Decoded(packets, tmp_path / "file").said() == sent


@pytest.mark.heavy
@every_protocol
@settings(max_examples=60, deadline=None)
@given(random=st.randoms(use_true_random=False))
def test_late_and_repeated(
    protocol: str, tmp_path_factory: pytest.TempPathFactory, random: Random
) -> None:
    """In both directions packets come up to eight late, and some again: their FINs, too."""
    packets, sent = SENT[protocol]
    places = list(range(HANDSHAKE, len(packets)))
    places += random.sample(places, 10)
    delivered = sorted((place + 8 * random.random(), place) for place in places)
    garbled = packets[:HANDSHAKE] + [packets[place].copy() for _, place in delivered]
    decoded = Decoded(garbled, tmp_path_factory.mktemp("late") / "file")
    assert decoded.said() == sent
    assert decoded.lost_bytes == {}


def test_repeated_in_other_pieces(tmp_path: Path) -> None:
    """A sender that repeats may cut its bytes elsewhere (RFC 9293 section 3.8)."""
    packets, sent = SENT["http1"]
    garbled = []
    for packet, following in zip(packets, [*packets[1:], packets[-1]], strict=True):
        garbled.append(packet)
        if len(packet[TCP].payload) == MSS_BYTES and is_from(NEAR, packet) == is_from(
            NEAR, following
        ):
            garbled.append(packet / following[TCP].payload)
    assert len(garbled) > len(packets) + 10
    assert Decoded(garbled, tmp_path / "file").said() == sent


@every_protocol
@pytest.mark.parametrize("end", [NEAR, FAR])
def test_one_direction_only(protocol: str, end: tuple[str, int], tmp_path: Path) -> None:
    packets, sent = SENT[protocol]
    decoded = Decoded([each for each in packets if is_from(end, each)], tmp_path / "file")
    half = 0 if end is NEAR else 1
    assert [(each[half], each[1 - half]) for each in decoded.said()] == [
        (each[half], None) for each in sent
    ]


@pytest.mark.parametrize(
    ("path", "others"),
    [("/first", [THIRD, FOURTH]), ("/third", [FIRST, SECOND, FOURTH])],
)
def test_request_that_was_not_captured(path: str, others: list[Said], tmp_path: Path) -> None:
    """Its answer belongs to none of the other requests."""
    packets, _ = SENT["http1"]
    (gone,) = [each for each in packets if path.encode() in bytes(each)]
    decoded = Decoded([each for each in packets if each is not gone], tmp_path / "file")
    assert [each for each in decoded.said() if each[0]] == others
    assert len(decoded.exchanges) == 4
    assert decoded.lost_bytes == {LossCause.NOT_CAPTURED: len(gone[TCP].payload)}


@pytest.mark.parametrize(
    ("status", "unanswered"), [(b"HTTP/1.1 404", THIRD), (b"HTTP/1.1 200", FOURTH)]
)
def test_response_that_was_not_captured(status: bytes, unanswered: Said, tmp_path: Path) -> None:
    packets, sent = SENT["http1"]
    *_, gone = [each for each in packets if status in bytes(each)]
    decoded = Decoded([each for each in packets if each is not gone], tmp_path / "file")
    assert decoded.said() == [
        (request, None if (request, response) == unanswered else response)
        for request, response in sent
    ]
    assert decoded.lost_bytes == {LossCause.NOT_CAPTURED: len(gone[TCP].payload)}


def test_late_behind_a_loss(tmp_path: Path) -> None:
    """What waits for bytes that were not captured is not lost itself."""
    wire = Wire()
    wire.handshake()
    wire.send(NEAR, get("/first"))
    lost = wire.send(FAR, answer(b"1"))
    late = wire.send(NEAR, get("/second"))
    wire.send(FAR, answer(b"2"))
    wire.end()
    wire.packets.remove(lost)
    wire.packets.remove(late)
    wire.packets.insert(HANDSHAKE + 2, late)
    decoded = Decoded(wire.packets, tmp_path / "file")
    assert decoded.said() == [(FIRST[0], None), SECOND]
    assert decoded.lost_bytes == {LossCause.NOT_CAPTURED: len(lost[TCP].payload)}
