"""Generated traffic, decoded as independent implementations decode it."""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import httptools
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sslsniff.decoders.detect import Detector
from sslsniff.decoders.messages import Message, MessageEnd, RequestHead, ResponseHead, Side
from tests.unit.captures import READ, WRITE, Taker, tshark_values
from tests.unit.decoders.traffic import gather, h2_traffic
from tests.unit.decoders.wires import END, C, S, Step, run

pytestmark = pytest.mark.tools

randoms = st.integers(0, 1 << 32).map(Random)


@settings(deadline=None, max_examples=30)
@given(random=randoms)
def test_http2_as_h2_sees_it(random: Random) -> None:
    wire, seen = h2_traffic(random)
    for size in (1 << 30, random.randint(1, 40)):
        assert gather(run(Detector(), wire, size)) == seen


class Listener:
    """What httptools calls back."""

    def __init__(self) -> None:
        self.messages: list[list[Any]] = []

    def on_message_begin(self) -> None:
        self.messages.append([b"", b"", [], b"", False])

    def on_url(self, url: bytes) -> None:
        self.messages[-1][0] += url

    def on_status(self, status: bytes) -> None:
        self.messages[-1][1] += status

    def on_header(self, name: bytes, value: bytes) -> None:
        self.messages[-1][2].append((name.decode(), value.decode()))

    def on_body(self, body: bytes) -> None:
        self.messages[-1][3] += body

    def on_message_complete(self) -> None:
        self.messages[-1][4] = True


def http1_messages(random: Random, side: Side) -> Iterator[bytes]:
    for n in range(random.randint(1, 12)):
        body = random.randbytes(random.choice([0, 1, 100, 5000]))
        fields = [f"X-{k}: {'v' * random.randint(0, 99)}".encode() for k in range(n)]
        if random.random() < 0.5:
            fields.append(b"content-length:%d" % len(body))
        else:
            fields.append(b"Transfer-Encoding: chunked")
            chunks = [body[at : at + 999] for at in range(0, len(body), 999)]
            body = b"".join(b"%X\r\n%b\r\n" % (len(c), c) for c in chunks) + b"0\r\n\r\n"
        start = b"POST /%d HTTP/1.1" % n if side is C else b"HTTP/1.1 %d Reason" % (210 + n)
        yield b"\r\n".join([start, *fields, b"", body])


@pytest.mark.parametrize("side", [C, S])
@settings(deadline=None, max_examples=50)
@given(random=randoms)
def test_http1_as_httptools_sees_it(side: Side, random: Random) -> None:
    wire = b"".join(http1_messages(random, side))
    listener = Listener()
    parser = httptools.HttpRequestParser if side is C else httptools.HttpResponseParser
    parser(listener).feed_data(wire)
    for size in (1 << 30, random.randint(1, 40)):
        # To the end: until then, the last byte of a body whose request is not known may be the
        # first one of the next response.
        seen = gather(run(Detector(), [(side, wire), (side, END)], size))
        ours = [
            [head[-1:] if side is C else [], fields, body, end is not None]
            for head, fields, body, end in (
                (one[0][:4], one[0][4 if side is C else 1 :], one[1], one[2])
                for one in seen.values()
            )
        ]
        theirs = [
            [[(":path", url.decode())] if side is C else [], fields, body, done]
            for url, _, fields, body, done in listener.messages
        ]
        assert ours == theirs


def http1_conversation(random: Random) -> list[Step]:
    asked, answered = http1_messages(random, C), http1_messages(random, S)
    return [step for a, b in zip(asked, answered, strict=False) for step in ((C, a), (S, b))]


WIRES = {
    "http/1.1": [http1_conversation(Random(seed)) for seed in range(20)],
    "h2": [h2_traffic(Random(seed))[0] for seed in range(20)],
}
# What tshark calls targets, statuses, and fields of heads and trailers, one for each line.
TSHARK = {
    "http/1.1": (
        "http.request.uri",
        "http.response.code",
        ("http.request.line", "http.response.line"),
    ),
    "h2": ("http2.headers.path", "http2.headers.status", ("http2.header.name",)),
}
_PSEUDO = (":method", ":scheme", ":authority", ":path")


def fields_of(messages: Iterable[Message]) -> Iterator[str]:
    """Yield the name of each field, pseudo-header fields only of HTTP/2."""
    for message in messages:
        match message:
            case RequestHead() | ResponseHead():
                if message.version == "HTTP/2":
                    yield from _PSEUDO if isinstance(message, RequestHead) else (":status",)
                yield from (str(name) for name, _ in message.headers)
            case MessageEnd():
                yield from (str(name) for name, _ in message.trailers)


@pytest.mark.parametrize("alpn", WIRES)
def test_a_capture_as_tshark_sees_it(alpn: str, tmp_path: Path) -> None:
    path = tmp_path / "file.pcapng"
    taker = Taker(path)
    messages: list[Message] = []
    for wire in WIRES[alpn]:
        taker.take([(WRITE if side is C else READ, data) for side, data in wire], alpn=alpn)  # type: ignore[misc]
        messages += run(Detector(), wire)
    taker.close()
    uri, status, lines = TSHARK[alpn]
    targets = [message.target for message in messages if isinstance(message, RequestHead)]
    statuses = [str(message.status) for message in messages if isinstance(message, ResponseHead)]
    assert len(targets) > 80
    assert Counter(tshark_values(path, uri)) == Counter(targets)
    assert Counter(tshark_values(path, status)) == Counter(statuses)
    shown = [value for line in lines for value in tshark_values(path, line)]
    names = [value[0] + value[1:].partition(":")[0] for value in shown]
    assert Counter(names) == Counter(fields_of(messages))
