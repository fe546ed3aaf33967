"""How fast the decoders are, beside what others make of the same bytes.

mitmproxy's HTTP/1 is its reader of heads alone; its HTTP/2 is h2's. h2 takes the requests alone, as
a server: it cannot watch. tshark reads a capture from a file; what its start takes does not count.
"""

import json
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import h2.connection
from h2.config import H2Configuration
from hpack import Encoder

from bench.rows import Row
from sslsniff.core.model import Address, Chunk, Connection, Direction
from sslsniff.core.process import Process
from sslsniff.decoders.detect import Detector
from sslsniff.decoders.messages import MessageEnd, ResponseHead, Side
from sslsniff.outputs.pcap.capture_writer import PcapSink

_EXCHANGES = 20_000
_BODY_PIECES = 32_768
_PIECE_BYTES = 16 << 10
_RUNS = 5
_MITMPROXY = Path(".cache/mitmproxy/bin/python")
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

_Wire = list[tuple[Side, bytes]]


def measure() -> Iterator[Row]:
    """Decode small exchanges of both protocols and long bodies."""
    for name, wire, bar, other, other_s, note in (
        ("HTTP/1.1", _http1(), 40_000, "mitmproxy", _mitmproxy_s, "heads alone"),
        ("HTTP/2, 10 + 10 fields", _http2(), 20_000, "h2", _h2_s, "requests alone"),
    ):
        took = _decode_s(wire, _EXCHANGES)
        yield Row(f"{name}: exchanges decoded", _EXCHANGES / took, "/s", least=bar)
        yield Row(f"{name}: tshark", _EXCHANGES / _tshark_s(wire, name), "/s")
        yield Row(f"{name}: {other}", _EXCHANGES / other_s(wire), "/s", note=note)
    for name, wire, ends in (("HTTP/1.1", _http1_body(), 1), ("HTTP/2", _http2_body(), 0)):
        speed = _BODY_PIECES * _PIECE_BYTES / _decode_s(wire, ends) / 1e9
        yield Row(f"{name}: body decoded", speed, "GB/s", least=1)


def _frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    header = len(payload).to_bytes(3, "big") + bytes((kind, flags))
    return header + stream.to_bytes(4, "big") + payload


def _http1() -> _Wire:
    wire: _Wire = []
    for n in range(_EXCHANGES):
        ask = (
            f"GET /item/{n} HTTP/1.1\r\nHost: example.com\r\n"
            "User-Agent: bench/1.0\r\nAccept: */*\r\n\r\n"
        )
        date = f"Sat, 21 Nov 2026 10:{n // 600 % 60:02}:{n // 10 % 60:02} GMT"
        reply = (
            f"HTTP/1.1 200 OK\r\nDate: {date}\r\nContent-Type: text/plain\r\n"
            "Content-Length: 5\r\n\r\nhello"
        )
        wire += [(Side.CLIENT, ask.encode()), (Side.SERVER, reply.encode())]
    return wire


def _http2() -> _Wire:
    """Ten fields each way, of which one or two are new each time."""
    wire: _Wire = [(Side.CLIENT, _PREFACE + _frame(4, 0, 0)), (Side.SERVER, _frame(4, 0, 0))]
    client, server = Encoder(), Encoder()
    for n in range(_EXCHANGES):
        stream = 2 * n + 1
        date = f"Sat, 21 Nov 2026 10:{n // 600 % 60:02}:{n // 10 % 60:02} GMT"
        ask = [
            *((":method", "GET"), (":scheme", "https"), (":authority", "example.com")),
            *((":path", f"/item/{n}"), ("user-agent", "bench/1.0"), ("accept", "*/*")),
            *((f"x-client-{k}", "always the same") for k in range(4)),
        ]
        reply = [
            *((":status", "200"), ("date", date), ("content-type", "text/plain")),
            *((f"x-server-{k}", "always the same") for k in range(7)),
        ]
        wire.append((Side.CLIENT, _frame(1, 5, stream, client.encode(ask))))
        head = _frame(1, 4, stream, server.encode(reply))
        wire.append((Side.SERVER, head + _frame(0, 1, stream, b"hello")))
    return wire


def _http1_body() -> _Wire:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (_BODY_PIECES * _PIECE_BYTES)
    ask: _Wire = [(Side.CLIENT, b"GET / HTTP/1.1\r\n\r\n"), (Side.SERVER, head)]
    return ask + [(Side.SERVER, bytes(_PIECE_BYTES))] * _BODY_PIECES


def _http2_body() -> _Wire:
    hello: _Wire = [
        (Side.CLIENT, _PREFACE + _frame(4, 0, 0) + _frame(1, 5, 1, b"\x82\x84\x87")),
        (Side.SERVER, _frame(4, 0, 0) + _frame(1, 4, 1, b"\x88")),
    ]
    return hello + [(Side.SERVER, _frame(0, 0, 1, bytes(_PIECE_BYTES)))] * _BODY_PIECES


def _best_s(run: Callable[[], None]) -> float:
    """Return the least CPU seconds of some runs: others disturb, nothing speeds up."""
    least = float("inf")
    for _ in range(_RUNS):
        started = time.process_time()
        run()
        least = min(least, time.process_time() - started)
    return least


def _decode_s(wire: _Wire, responses: int) -> float:
    def run() -> None:
        decoder, ends = Detector(), 0
        for side, data in wire:
            for message in decoder.feed(side, data):
                if type(message) is ResponseHead:
                    ends += message.whole is not None
                elif type(message) is MessageEnd:
                    ends += message.side is Side.SERVER
        if ends != responses:
            raise RuntimeError(f"{ends} of {responses} responses were decoded")

    return _best_s(run)


def _h2_s(wire: _Wire) -> float:
    """Let a server of h2 take the requests; that it has to answer them does not count."""
    server = h2.connection.H2Connection(H2Configuration(client_side=False))
    server.initiate_connection()
    took = 0.0
    for at, data in enumerate(data for side, data in wire if side is Side.CLIENT):
        started = time.process_time()
        server.receive_data(data)
        took += time.process_time() - started
        if at:
            server.send_headers(2 * at - 1, [(":status", "200")], end_stream=True)
            server.clear_outbound_data_buffer()
    return took


def _tshark_s(wire: _Wire, name: str) -> float:
    """Return tshark's CPU seconds for a capture of the wire, less those for its first bytes."""
    with tempfile.TemporaryDirectory(prefix="sslsniff-bench-") as folder:
        whole, start = Path(folder) / "whole.pcapng", Path(folder) / "start.pcapng"
        for path, part in ((whole, wire), (start, wire[:4])):
            _write(path, part, "h2" if name.startswith("HTTP/2") else "http/1.1")
        fields = "http2.header.name" if name.startswith("HTTP/2") else "http.request.uri"
        return _child_s(["tshark", "-nr", whole, "-Tfields", "-e", fields]) - _child_s(
            ["tshark", "-nr", start, "-Tfields", "-e", fields]
        )


def _child_s(command: list[str | Path]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _write(path: Path, wire: _Wire, alpn: str) -> None:
    connection = Connection("1-1", Process(1, "bench"), "openssl", Side.CLIENT, True, 0)
    connection.local, connection.remote = Address("127.0.0.1", 40000), Address("127.0.0.1", 443)
    connection.alpn = alpn
    offsets = {Direction.READ: 0, Direction.WRITE: 0}
    with path.open("wb") as file:
        sink = PcapSink(file)
        sink.opened(connection, 0)
        for at, (side, data) in enumerate(wire):
            direction = Direction.WRITE if side is Side.CLIENT else Direction.READ
            sink.chunk(Chunk(connection, direction, at * 1000, 1, offsets[direction], data))
            offsets[direction] += len(data)
        sink.closed(connection, len(wire) * 1000)
        sink.flush()


_MITMPROXY_READER = """
import json, sys, time
from mitmproxy.net.http.http1 import read_request_head, read_response_head
told = [(side, text.encode().split(b"\\r\\n\\r\\n")[0]) for side, text in json.load(sys.stdin)]
wire = [(side, head.split(b"\\r\\n")) for side, head in told]
started = time.process_time()
for side, lines in wire:
    (read_request_head if side == "client" else read_response_head)(lines)
print(time.process_time() - started)
"""


def _mitmproxy_s(wire: _Wire) -> float:
    told = json.dumps([(side.value, data.decode()) for side, data in wire])
    command = [str(_MITMPROXY), "-c", _MITMPROXY_READER]
    done = subprocess.run(command, input=told, check=True, capture_output=True, text=True)
    return float(done.stdout)
