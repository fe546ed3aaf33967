"""Exchanges as slices of a trace file, with their calls in them."""

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sslsniff.cli.main import main
from sslsniff.core.model import Connection, Exchange, Request, Response
from sslsniff.core.process import Process
from sslsniff.decoders.messages import Headers, Side
from sslsniff.fetching.trace_places import Place, PlaceKind
from sslsniff.functions.outputs.traced_call import TracedCall
from sslsniff.machine_code.probe_sites import Cost
from sslsniff.outputs.chrome_trace.exchange_trace import ExchangeTrace

PLACE = Place(PlaceKind.ENTRY, "handle", "/server", 0, 0, Cost.EMULATED)
CONNECTION = Connection("9-1", Process(9, "server"), "openssl", Side.SERVER, True, 0)


def exchange(start_us: int, end_us: int, stream: int | None = None) -> Exchange:
    made = Exchange(CONNECTION, "http/1.1", stream, 9, start_us * 1000, ended_ns=end_us * 1000)
    made.request = Request("GET", f"/{start_us}", None, None, Headers())
    made.response = Response(200, "OK", Headers())
    return made


def call(start_us: int, duration_us: int | None, **facts: Any) -> TracedCall:
    duration_ns = None if duration_us is None else duration_us * 1000
    facts = {"ends_later": True, "arguments": {"n": 5}, **facts}
    return TracedCall(PLACE, start_us * 1000, 9, 10, 7, 0, duration_ns=duration_ns, **facts)


def written(
    exchanges: Sequence[Exchange], calls: Sequence[TracedCall] | None = None
) -> list[dict[str, Any]]:
    stream = io.BytesIO()
    sink = ExchangeTrace(stream, (lambda _: calls) if calls is not None else None)
    for each in exchanges:
        sink.exchange(each)
    sink.close()
    found: list[dict[str, Any]] = json.loads(stream.getvalue())
    return found


def slices(events: list[dict[str, Any]]) -> list[tuple[str, float, float]]:
    """Return name, start and duration of each slice; starts are those since the first of all."""
    found = [each for each in events if each["ph"] == "X"]
    first = min(each["ts"] for each in found)
    return [(each["name"], each["ts"] - first, each["dur"]) for each in found]


def test_calls_are_inside_of_their_exchange() -> None:
    result = call(20, 5, result=6, has_result=True)
    events = written([exchange(10, 50)], [result, call(40, None), call(45, 20)])
    assert slices(events) == [
        ("GET /10", 0, 55),
        ("handle", 10, 5),
        ("handle", 30, 25),  # its return was not seen
        ("handle", 35, 20),
    ]
    assert len({(each["pid"], each["tid"]) for each in events if each["ph"] == "X"}) == 1
    assert events[2]["args"]["status"] == 200
    assert events[3]["args"] == {"n": 5, "result": 6, "task": 7, "thread": 10}
    assert events[4]["args"]["returned"] is False


def test_a_call_before_the_head_was_complete() -> None:
    assert slices(written([exchange(10, 50)], [call(4, 2)])) == [
        ("GET /10", 0, 46),
        ("handle", 0, 2),
    ]


def test_streams_that_overlap_have_tracks_of_their_own() -> None:
    events = written([exchange(10, 20, 1), exchange(15, 30, 3), exchange(20, 40, 5)])
    tracks = [each["tid"] for each in events if each["ph"] == "X"]
    assert tracks[0] == tracks[2] != tracks[1]
    names = [each["args"]["name"] for each in events if each["ph"] == "M"]
    assert names == ["server", "connection 9-1", "connection 9-1"]


def test_no_time_is_negative() -> None:
    """The one that ends first began last."""
    events = written([exchange(30, 40, 3), exchange(10, 50, 1)])
    first, second = [each["ts"] for each in events if each["ph"] == "X"]
    assert first - second == 20
    assert second > 0


def test_nothing_was_written() -> None:
    assert written([]) == []


def test_a_capture_is_read(tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    capture = Path("pcaps/http1-keep-alive.pcapng")
    assert main(["read", str(capture), "--chrome-trace", str(trace)]) == 0
    expected = capture.with_suffix(".expected.jsonl").read_text("utf-8").splitlines()
    targets = [
        f"{each['request']['method']} {each['request']['target']}"
        for each in map(json.loads, expected)
        if each["type"] == "exchange"
    ]
    assert [name for name, _, _ in slices(json.loads(trace.read_text("utf-8")))] == targets
