"""Generated traffic, decoded as independent implementations decode it."""

from collections.abc import Iterator
from random import Random
from typing import Any

import httptools
import pytest

from sslsniff.decoders.detect import Detector
from sslsniff.decoders.messages import Side
from tests.unit.decoders.traffic import gather, h2_traffic
from tests.unit.decoders.wires import C, S, run


@pytest.mark.parametrize("seed", range(10))
def test_http2_as_h2_sees_it(seed: int) -> None:
    random = Random(seed)
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
@pytest.mark.parametrize("seed", range(10))
def test_http1_as_httptools_sees_it(seed: int, side: Side) -> None:
    random = Random(seed)
    wire = b"".join(http1_messages(random, side))
    listener = Listener()
    parser = httptools.HttpRequestParser if side is C else httptools.HttpResponseParser
    parser(listener).feed_data(wire)
    for size in (1 << 30, random.randint(1, 40)):
        seen = gather(run(Detector(), [(side, wire)], size))
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
