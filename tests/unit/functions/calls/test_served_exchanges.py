"""Exchanges reach the sinks with their calls, when these have returned."""

import io
import json
from typing import Any

import pytest

from sslsniff.core.events import BytesPassed, Closed, Data, Exited, Opened
from sslsniff.core.exchanges.exchange_builder import ExchangeBuilder
from sslsniff.core.flows import Flows
from sslsniff.core.model import Direction
from sslsniff.decoders.messages import Side
from sslsniff.forms.json.json_lines import JsonSink
from sslsniff.functions.calls.exchange_calls import ExchangeCalls
from sslsniff.functions.calls.served_exchanges import WAIT_NS, ServedExchanges
from sslsniff.functions.outputs.call_json import call_objects
from sslsniff.outputs.lines.terminal import TerminalSink
from tests.unit.core.exchanges.wire import Recorder
from tests.unit.traced import ENTRY, RETURN, hit, place

PID, TID = 70, 77
PLACES = [place(ENTRY, "handle"), place(RETURN, "handle"), place(ENTRY, "check")]
HANDLE, HANDLED, CHECK = range(3)
REQUEST = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n"
RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Server:
    """A server's events, a millisecond after one another, as a capture yields them."""

    def __init__(self) -> None:
        self.calls = ExchangeCalls(PLACES, has_tasks=False)
        self.text, self.json = io.StringIO(), io.BytesIO()
        self.recorder = Recorder()
        shown = TerminalSink(self.text, calls_of=self.calls.calls_of)
        lines = JsonSink(self.json, calls_of=call_objects(self.calls.calls_of, self.json))
        self.served = ServedExchanges(self.calls, [self.recorder, shown, lines])
        builder = ExchangeBuilder([self.served])
        self.served.count_open = builder.count_open
        self.builder = builder
        self.flows = Flows(["openssl"], builder)
        self.now_ns = 0
        self._positions = {Direction.READ: 0, Direction.WRITE: 0}
        self.flows.handle(Opened(0, TID, 1, PID, 0, "demo", 0, Side.SERVER, True))

    def pass_bytes(self, direction: Direction, data: bytes) -> None:
        self.now_ns += 1_000_000
        position = self._positions[direction]
        self._positions[direction] += len(data)
        event = Data(self.now_ns, TID, 1, direction, position, len(data), data)
        self.calls.note_bytes(BytesPassed(self.now_ns, PID, TID, 0, 1, direction))
        self.calls.prepare(event, self.flows.connection(1))
        self.flows.handle(event)

    def read(self, data: bytes = REQUEST) -> None:
        self.pass_bytes(Direction.READ, data)

    def write(self, data: bytes = RESPONSE) -> None:
        self.pass_bytes(Direction.WRITE, data)

    def hit(self, number: int, stack: int = 100) -> None:
        self.now_ns += 1_000_000
        made = hit(0, number, stack, bytes([number]))
        self.calls.handle_hit(made._replace(pid=PID, tid=TID, time_ns=self.now_ns, task=0))

    def exchanges(self) -> list[dict[str, Any]]:
        lines = map(json.loads, self.json.getvalue().splitlines())
        return [each for each in lines if each["type"] == "exchange"]

    def shown(self) -> list[str]:
        """Return the lines below the exchanges."""
        return [each for each in self.text.getvalue().splitlines() if each.startswith(" ")]


def test_a_call_that_returned_before_the_response() -> None:
    server = Server()
    server.read()
    server.hit(HANDLE)
    server.hit(CHECK, 90)
    server.hit(HANDLED)
    server.write()
    [exchange] = server.exchanges()
    calls = [(each["function"], each["duration_ns"], each["depth"]) for each in exchange["calls"]]
    assert calls == [("handle", 2_000_000, 0), ("check", None, 1)]
    assert exchange["calls"][0] | {"comm": ""} == exchange["calls"][0] | {
        **{"type": "call", "pid": PID, "tid": TID, "args": {"n": HANDLE}, "result": HANDLED},
        **{"file": "/src/demo.c", "line": 7, "inlined": False, "comm": ""},
    }
    assert server.shown() == ["    handle(n=0) = 1  2.0 ms", "      check(n=2)"]
    assert server.calls.describe(0) == "2 calls, 2 shown under the exchange that they served"


def test_an_exchange_waits_for_the_return_of_its_calls() -> None:
    server = Server()
    server.read()
    server.hit(HANDLE)
    server.write()
    assert server.recorder.exchanges == []
    server.hit(HANDLED)
    assert server.shown() == ["    handle(n=0) = 1  2.0 ms"]
    server.served.tick(server.now_ns + 2 * WAIT_NS)
    assert len(server.recorder.exchanges) == 1


@pytest.mark.parametrize("end", ["tick", "next", "closed", "exited", "finish"])
def test_it_does_not_wait_for_longer(end: str) -> None:
    server = Server()
    server.read()
    server.hit(HANDLE)
    server.write()
    server.served.tick(server.now_ns + WAIT_NS - 1)
    assert server.recorder.exchanges == []
    if end == "tick":
        server.served.tick(server.now_ns + WAIT_NS)
    elif end == "next":
        server.read()
        server.write()
    elif end == "closed":
        server.flows.handle(Closed(server.now_ns, 1, len(REQUEST), len(RESPONSE)))
    elif end == "exited":
        server.flows.handle(Exited(server.now_ns, PID))
        server.calls.end_process(PID)
    else:
        server.builder.finish()
    assert server.shown()[0] == "    handle(n=0)  (return not seen)"
    assert [len(each["calls"]) for each in server.exchanges()] == [1] + [0] * (end == "next")
    if end != "exited":
        server.hit(HANDLED)  # nothing waits for it any more


def test_calls_that_are_not_known() -> None:
    server = Server()
    server.read(REQUEST + REQUEST)
    server.hit(CHECK)
    server.write(RESPONSE + RESPONSE)
    assert [each["calls"] for each in server.exchanges()] == [None, None]
    assert server.shown() == []
    assert server.calls.describe(3) == (
        "1 call, 0 shown under the exchange that they served, 1 served none, or it is not known"
        " which, 3 lost, as the ring buffer was full"
    )


def test_without_calls_there_is_no_such_field() -> None:
    stream = io.BytesIO()
    builder = ExchangeBuilder([JsonSink(stream)])
    flows = Flows(["openssl"], builder)
    flows.handle(Opened(0, TID, 1, PID, 0, "demo", 0, Side.SERVER, True))
    flows.handle(Data(1, TID, 1, Direction.READ, 0, len(REQUEST), REQUEST))
    flows.handle(Data(2, TID, 1, Direction.WRITE, 0, len(RESPONSE), RESPONSE))
    [exchange] = [line for line in stream.getvalue().splitlines() if b'"exchange"' in line]
    assert b'"calls"' not in exchange
