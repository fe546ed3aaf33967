"""Every byte of a capture is accounted for once: decoded, undecoded with its reason, or missing.

What is decoded is added up from what is shown: the frames of HTTP/2 (RFC 9113 section 4.1), and the
messages of HTTP/1 as they were written. The captures are cut after each packet, too: what was
received of an unfinished message counts like any other byte.
"""

import io
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sslsniff.core.exchanges.exchange_builder import ExchangeBuilder
from sslsniff.core.flows import Flows
from sslsniff.files.replay import ReplaySource
from sslsniff.forms.json.json_lines import JsonSink
from sslsniff.screen.captured.rebuilt_exchanges import data_of
from tests.corpus.test_pcaps import CAPTURES
from tests.unit.captures import READ, WRITE, Step, answer, get, http1_steps, http2_steps, post
from tests.unit.files.foreign import FAR, NEAR, Wire

# RFC 9113 section 3.4, after the header of a proxy, if there is one (PROXY protocol, section 2.1).
PREFACE = re.compile(rb"(?:PROXY [^\r]+\r\n)?(PRI \* HTTP/2\.0\r\n\r\nSM\r\n\r\n)")
BEGINNING_BYTES = 107 + 24
FRAME_HEADER = 9
OTHER = {"read": "write", "write": "read"}

Account = Counter[tuple[str, str]]


def lines_of(capture: Path) -> list[dict[str, Any]]:
    """Return the objects of ``sslsniff read --json --frames --chunks``."""
    source, stream = ReplaySource(capture), io.BytesIO()
    builder = ExchangeBuilder([JsonSink(stream, chunks=True, stalls=True)], frames=True)
    flows = Flows(source.libraries, builder)
    for event in source:
        flows.handle(event)
    builder.finish()
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def written(message: dict[str, Any], first_line: str) -> int:
    """Return how many bytes a message of HTTP/1 has."""
    lines = [f"{name}: {value}" for name, value in message["headers"]]
    head = "".join(f"{line}\r\n" for line in (first_line, *lines, "")).encode()
    size: int = message["body"]["size"]
    return len(head) + size


def accounts(lines: list[dict[str, Any]]) -> tuple[Account, Account]:
    """Return the bytes of each direction of each connection: captured, and accounted for."""
    captured, accounted, data, bodies = Account(), Account(), Account(), Account()
    beginnings: dict[tuple[str, str], bytes] = {}
    for line in lines:
        if "connection" not in line:
            continue
        connection, sent = line["connection"], line.get("direction", "")
        asks = "write" if line["role"] == "client" else "read"
        match line["type"]:
            case "chunk":
                captured[connection, sent] += line["data"]["size"]
                beginning = beginnings.get((connection, sent), b"")
                if sent == asks and len(beginning) < BEGINNING_BYTES:
                    beginnings[connection, sent] = beginning + data_of(line["data"])
            case "undecoded" if line["reason"].endswith("'s reset"):
                pass  # of frames, which count
            case "undecoded":
                accounted[connection, sent] += line["data"]["size"]
            case "frame":
                accounted[connection, sent] += FRAME_HEADER + line["length"]
                data[connection, sent] += line["length"] if line["frame"] == "DATA" else 0
            case "exchange" if line["protocol"] == "http/2":
                for name, side in (("request", asks), ("response", OTHER[asks])):
                    bodies[connection, side] += line[name]["body"]["size"] if line[name] else 0
            case "exchange":
                request, response = line["request"], line["response"]
                if request is not None:
                    first = f"{request['method']} {request['target']} HTTP/1.1"
                    accounted[connection, asks] += written(request, first)
                if response is not None:
                    first = f"HTTP/1.1 {response['status']} {response['reason']}"
                    accounted[connection, OTHER[asks]] += written(response, first)
    for each, size in bodies.items():  # the rest is of a DATA frame that is not whole
        accounted[each] += size - data[each] + FRAME_HEADER if size > data[each] else 0
    for each, beginning in beginnings.items():
        found = PREFACE.match(beginning)
        accounted[each] += len(found[1]) if found else 0
    return captured, accounted


def check(capture: Path) -> None:
    captured, accounted = accounts(lines_of(capture))
    assert accounted == captured


# The lines with the sizes of chunks are not shown, nor the answers of databases.
NOT_SHOWN = {"expect-chunked-redirect", "sse-8", "sse-16"}
NOT_SHOWN |= {"real-my-2", "real-my-bulk", "real-pg-failed-parse", "real-redis-skip"}


@pytest.mark.parametrize(
    "capture", [each for each in CAPTURES if each.stem not in NOT_SHOWN], ids=lambda path: path.stem
)
def test_captures(capture: Path) -> None:
    check(capture)


CONNECTIONS: dict[str, list[Step]] = {
    "http1": [(WRITE, get("/a")), (READ, answer(b"b" * 50)), (WRITE, post("/c", b"d" * 90))],
    "pipelined": http1_steps("a")[2:5],
    "http2": http2_steps(2, b"body" * 30),
    "http2 in a frame that is lost": [*http2_steps(1, b""), (WRITE, b"\0\0\x30\1\5\0\0\0\7abc")],
    "http2 padded": [*http2_steps(1, b""), (WRITE, b"\0\0\x30\0\x08\0\0\0\7")],
    "unknown": [(WRITE, b"\x00hello"), (READ, b"\xffyes" * 9), (WRITE, b"\x01\x02")],
    "then unknown": [(WRITE, get("/a")), (READ, b"\xff\x00 no HTTP" * 30)],
    "head without end": [(WRITE, get("/a")[:-2]), (READ, b"HTTP/1.1 200 OK\r\nX: y\r\n")],
}


@pytest.mark.heavy
@pytest.mark.parametrize("name", CONNECTIONS)
@pytest.mark.parametrize("size", [7, 40, 1000])
def test_every_cut(name: str, size: int, tmp_path: Path) -> None:
    wire = Wire()
    wire.handshake()
    for side, data in CONNECTIONS[name]:
        assert isinstance(data, bytes)
        for start in range(0, len(data), size):
            wire.send(NEAR if side is WRITE else FAR, data[start : start + size])
    whole = wire.packets
    for count in range(4, len(whole) + 1):
        wire.packets = whole[:count]
        wire.write(tmp_path / "cut.pcap")
        check(tmp_path / "cut.pcap")
