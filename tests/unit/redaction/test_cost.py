"""What redaction takes: time that grows with the bytes alone, and bounded memory."""

import tracemalloc
from collections.abc import Callable

import pytest

from sslsniff.core.model import Chunk, Connection, Direction
from sslsniff.core.process import Process
from sslsniff.decoders.http2.frames import CONTINUATION, HEADERS, PING, PREFACE, SETTINGS
from sslsniff.decoders.messages import Side
from sslsniff.redaction import redactor
from sslsniff.redaction.redactor import Redactor
from sslsniff.redaction.rules import Rules
from tests.unit.captures import WRITE
from tests.unit.decoders.wires import frame
from tests.unit.linear import assert_linear
from tests.unit.redaction.traffic import BEARER

pytestmark = pytest.mark.measured

MIB = 1 << 20
START = PREFACE + frame(SETTINGS, 0, 0)
POST = b"POST / HTTP/1.1\r\nContent-Length: 10000000\r\n\r\n"


class Told:
    """A listener that drops what it is told, but for its size and a look for a secret."""

    def __init__(self) -> None:
        self.size = 0
        self.leaks = 0

    def opened(self, connection: Connection, time_ns: int) -> None: ...
    def ended(self, connection: Connection, direction: Direction, time_ns: int) -> None: ...
    def handshake(self, handshake: object) -> None: ...
    def closed(self, connection: Connection, time_ns: int) -> None: ...
    def consumed(self, count: int, time_ns: int) -> None: ...
    def tick(self, now_ns: int) -> None: ...
    def consumer(self, connection: Connection, direction: Direction) -> None: ...

    def chunk(self, chunk: Chunk) -> None:
        self.size += len(chunk.data)
        self.leaks += BEARER[:8] in chunk.data


def opened(told: Told, alpn: str | None, number: int = 1) -> tuple[Redactor, Connection]:
    made = Redactor(told, Rules(defaults=True))
    return made, opened_in(made, alpn, number)


def opened_in(redaction: Redactor, alpn: str | None, number: int) -> Connection:
    one = Connection(f"1-{number}", Process(1, "x"), "openssl", Side.CLIENT, True, 0, alpn=alpn)
    redaction.opened(one, 0)
    return one


def passes(alpn: str | None, size: int) -> Callable[[bytes], object]:
    def run(wire: bytes) -> None:
        redaction, one = opened(Told(), alpn)
        for at in range(0, len(wire), size):
            redaction.chunk(Chunk(one, WRITE, 1, 1, at, wire[at : at + size]))

    return run


def repeated(unit: bytes, before: bytes = b"") -> Callable[[int], bytes]:
    return lambda size: before + unit * (size // len(unit))


FORM = (
    b"POST / HTTP/1.1\r\nContent-Type: multipart/form-data; boundary=XbX\r\n"
    b"Content-Length: 10000000\r\n\r\n"
    b'--XbX\r\nContent-Disposition: form-data; name="token"\r\n\r\n'
)
ALMOST_BOUNDARIES = {
    "longer": b"\r\n--XbXY",
    "with blanks": b"\r\n--XbX  ",
    "with other ends of lines": b"\n--XbX\n",
    "bare carriage returns": b"\r",
    "half ended": b"\r\n--XbX--\r",
}
WIRES: dict[str, tuple[str | None, Callable[[int], bytes]]] = {
    "a head without end": ("http/1.1", repeated(b"a", b"GET / HTTP/1.1\r\nX: ")),
    "short fields": ("http/1.1", repeated(b"a: b\r\n", b"GET / HTTP/1.1\r\n")),
    "a secret without end": ("http/1.1", repeated(b"a", POST + b'{"password": "')),
    "many values before their names": (
        "http/1.1",
        repeated(b'{"value": "a", "name": "token"}', POST),
    ),
    "many values": ("http/1.1", repeated(b'"value":"a",', POST)),
    "many secrets": ("http/1.1", repeated(b'{"password": "a"}', POST)),
    **{
        f"almost a boundary, {name}": ("http/1.1", repeated(line, FORM))
        for name, line in ALMOST_BOUNDARIES.items()
    },
    "no protocol": (None, repeated(b"\x01")),
    "a header block without end": (
        "h2",
        lambda size: START + frame(HEADERS, 0, 1, b"\x82" + b"a" * min(size, 250_000)),
    ),
    "short CONTINUATION frames": (
        "h2",
        repeated(frame(CONTINUATION, 0, 1, b"a"), START + frame(HEADERS, 0, 1, b"\x82")),
    ),
    "wrong frames": (
        "h2",
        repeated(frame(PING, 0, 0, bytes(8)) * 4 + frame(PING, 0, 0, bytes(7)), START),
    ),
    "a long secret in a Huffman code": (
        "h2",
        lambda size: (
            START
            + frame(HEADERS, 0, 1, b"\x0f\x08\xff" + _integer(size - 127) + b"\x1f" * 16_000)
            + b"".join(
                frame(CONTINUATION, 4 * (at + 16_000 >= size), 1, b"\x1f" * min(16_000, size - at))
                for at in range(16_000, size, 16_000)
            )
        ),
    ),
}


def _integer(value: int) -> bytes:
    """Return what follows a full prefix (RFC 7541 section 5.1)."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes((value,))


@pytest.mark.parametrize("size", [1 << 30, 1460, 1])
@pytest.mark.parametrize("name", WIRES)
@pytest.mark.reliability("input", "bytes made to take long")
def test_time_is_linear(name: str, size: int) -> None:
    alpn, make = WIRES[name]
    assert_linear(
        make,
        passes(alpn, size),
        first_bytes=4 << 10,
        most_bytes=(8 if size == 1 else 60) << 10,
        most_units_per_byte=200 if size == 1 else 15,
    )


def test_frames_out_of_step_end_in_no_recursion() -> None:
    wire = START + (frame(PING, 0, 0, bytes(8)) * 4 + frame(PING, 0, 0, bytes(7))) * 2000
    passes("h2", 1 << 30)(wire)


def test_all_connections_hold_no_more_than_is_stated() -> None:
    told = Told()
    redaction = Redactor(told, Rules(defaults=True))
    head = b"GET / HTTP/1.1\r\nAuthorization: Bearer " + BEARER * (60_000 // len(BEARER))
    connections = [opened_in(redaction, "http/1.1", number) for number in range(3000)]
    tracemalloc.start()
    try:
        for one in connections:
            for at in range(0, len(head), 16_000):
                redaction.chunk(Chunk(one, WRITE, 1, 1, at, head[at : at + 16_000]))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < redactor.HELD_BYTES + 32 * MIB
    assert told.size > 100 * MIB  # of 180: what was held longest passed, blanked
    rest = BEARER + b"\r\n\r\nGET / HTTP/1.1\r\nAuthorization: " + BEARER + b"\r\n\r\n"
    for one in connections:
        redaction.chunk(Chunk(one, WRITE, 1, 1, len(head), rest))
    redaction.finish()
    assert told.size == 3000 * (len(head) + len(rest))
    assert told.leaks == 0


def test_single_bytes_take_little_memory() -> None:
    run = passes("http/1.1", 1)
    tracemalloc.start()
    try:
        run(b"GET / HTTP/1.1\r\nX: " + b"a" * 60_000)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 16 * MIB
