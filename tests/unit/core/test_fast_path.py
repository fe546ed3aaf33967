"""The fast path, to a capture file and to a decoder, gives what the long way does."""

import io
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sslsniff.core import events, wire
from sslsniff.core.exchanges.exchange_builder import ExchangeBuilder
from sslsniff.core.fast_path import FastPath, direction_key
from sslsniff.core.flows import Flows
from sslsniff.core.model import Connection, Direction
from sslsniff.core.ring_records import Records
from sslsniff.core.sink import Sink, Summary
from sslsniff.files.packing import Template
from sslsniff.files.pcap import PcapWriter
from sslsniff.forms.json.json_lines import JsonSink
from sslsniff.libraries.rustls.joiner import RustlsConnections
from sslsniff.outputs.pcap.capture_writer import PcapSink
from tests.unit.kernel.ring import laid_out

OFFSET_NS = 1_700_000_000_000_000_000
DATA, ADDRESSES, CLOSED, EXITED, ENDED, SOCKET_GONE, LEFT_OUT = 2, 3, 4, 5, 6, 8, 9
SOCKET = 7
REQUEST = b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello"
RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

Make = Callable[[io.BytesIO], Sink]
SINKS: dict[str, Make] = {"pcap": lambda file: PcapSink(file, "pcap"), "json": JsonSink}


class Totals(Sink):
    wants_messages = False

    def __init__(self) -> None:
        self.seen: list[tuple[str, int, int]] = []
        self.totals = Summary()

    def closed(self, connection: Connection, time_ns: int) -> None:
        self.seen.append((connection.id, connection.bytes_read, connection.bytes_written))

    def summary(self, summary: Summary) -> None:
        self.totals = summary


class Outcome(NamedTuple):
    file: bytes
    closed: list[tuple[str, int, int]]
    totals: Summary
    fast: int
    """How many records took the fast path."""


def opened(connection: int, from_start: bool, role: int = 1, half: int = 0) -> bytes:
    head = (1, 0, 0, 7, 1, connection, 50, 0, 9, 0, 0x0304)
    return wire.OPENED.pack(*head, role, from_start, 0, half, 0, 0, b"demo", b"", b"", b"")


def addresses(connection: int, socket: int = 0) -> bytes:
    ips = bytes([127, 0, 0, 1]).ljust(16, b"\0")
    port = 40000 + (socket or connection)
    return wire.ADDRESSES.pack(ADDRESSES, 0, 0, 7, 1, connection, 2, port, 443, ips, ips, socket)


def run(records: list[bytes], fast_path: FastPath | None, make: Make) -> Outcome:
    file, totals = io.BytesIO(), Totals()
    sink = make(file)
    builder = ExchangeBuilder([sink, totals])
    flows = Flows(["openssl"], builder, fast_path)
    halves = RustlsConnections(fast_path or FastPath())
    ring = laid_out(records)
    rest = iter(ring.next, None) if fast_path is None else fast_path.run(ring, OFFSET_NS)
    fast = len(records)
    for view in rest:
        fast -= 1
        for event in halves.handle(wire.parse(view, OFFSET_NS)):
            flows.handle(event)
    for event in halves.release():
        flows.handle(event)
    flows.finish()
    builder.finish()
    sink.close()
    return Outcome(file.getvalue(), totals.seen, totals.totals, fast)


acts = st.lists(
    st.tuples(
        st.sampled_from([1, 2]),
        st.sampled_from(["data"] * 12 + ["gap", "cut", "ended", "closed", "addresses", "exited"]),
        st.integers(0, 1),
        st.sampled_from(
            [REQUEST, RESPONSE, REQUEST[:30], b"\0" * 30, b"x" * 5000, b"x" * 20_000, b""]
        ),
        st.integers(70, 72),
    ),
    max_size=60,
)


@pytest.mark.tools
@pytest.mark.parametrize("make", SINKS.values(), ids=SINKS)
@given(acts, st.booleans(), st.integers(0, 2))
def test_same_as_the_long_way(
    make: Make, acts: list[tuple[int, str, int, bytes, int]], from_start: bool, role: int
) -> None:
    records = [opened(1, from_start, role), addresses(1), opened(2, True)]
    positions: dict[tuple[int, int], int] = {}
    for time_ns, (connection, act, direction, data, tid) in enumerate(acts, 10):
        at = positions.get((connection, direction), 0)
        head = (0, tid, time_ns, connection)
        both = [positions.get((connection, each), 0) for each in (0, 1)]
        if act in ("data", "gap", "cut"):
            at += 40 * (act == "gap")
            span = len(data) + 100 * (act == "cut")
            cut = (act == "cut", *head[1:])
            sizes = (at, span, len(data), 0)
            records.append(wire.DATA.pack(DATA, direction, *cut, *sizes) + data)
            positions[connection, direction] = at + span
        elif act == "ended":
            records.append(wire.ENDED.pack(ENDED, direction, *head, at))
        elif act == "closed":
            records.append(wire.CLOSED.pack(CLOSED, 0, *head, *both))
        elif act == "addresses":
            records.append(addresses(connection))
        elif act == "exited":
            records.append(wire.EXITED.pack(EXITED, 0, 0, 0, time_ns, 0, 50, 0))
    long, fast = run(records, None, make), run(records, FastPath(), make)
    assert fast[:3] == long[:3]


half_acts = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 2, 3]),
        st.sampled_from(
            ["data"] * 12 + ["gap", "closed", "addresses", "moved", "gone", "left out"]
        ),
        st.sampled_from([REQUEST, RESPONSE, REQUEST[:30], b"\0" * 30]),
    ),
    max_size=60,
)


@pytest.mark.tools
@pytest.mark.parametrize("make", SINKS.values(), ids=SINKS)
@given(half_acts)
def test_same_as_the_long_way_with_halves(make: Make, acts: list[tuple[int, str, bytes]]) -> None:
    """Two for each direction, as where keys change; both may be of either of two sockets."""
    records = []
    numbers = itertools.count(100)  # the kernel gives none twice
    open_now: dict[int, int] = {}
    positions: dict[int, int] = {}
    for time_ns, (half, act, data) in enumerate(acts, 10):
        direction = half & 1
        if half not in open_now:
            number = open_now[half] = next(numbers)
            records += [opened(number, True, 1, 1 + direction), addresses(number, SOCKET)]
        number = open_now[half]
        head = (0, 70, time_ns, number)
        at = positions.get(number, 0)
        if act in ("data", "gap"):
            at += 40 * (act == "gap")
            sizes = (at, len(data), len(data), 0)
            records.append(wire.DATA.pack(DATA, direction, *head, *sizes) + data)
            positions[number] = at + len(data)
        elif act == "closed":
            both = (0, at) if direction else (at, 0)
            records.append(wire.CLOSED.pack(CLOSED, 0, *head, *both))
            del open_now[half]
        elif act in ("addresses", "moved"):
            records.append(addresses(number, SOCKET + (act == "moved")))
        elif act == "gone":
            records.append(wire.SOCKET_GONE.pack(SOCKET_GONE, 0, 0, 0, time_ns, 0, SOCKET))
        elif act == "left out":
            records.append(wire.LEFT_OUT.pack(LEFT_OUT, 0, *head))
            del open_now[half]
    long, fast = run(records, None, make), run(records, FastPath(), make)
    assert fast[:3] == long[:3]


@pytest.mark.parametrize("make", SINKS.values(), ids=SINKS)
def test_a_gap_behind_new_addresses_and_new_keys_is_told(make: Make) -> None:
    """The positions that the first half reached on the fast path are known by then."""
    first, second = 11, 12
    places = [(first, 0), (first, 1), (first, 2), (second, 0), (second, 1)]
    records = []
    for time_ns, (half, number) in enumerate(places, 10):
        if number == 0:
            socket = SOCKET + (half == second)
            records += [opened(half, True, 1, 1), addresses(half, socket)]
        at = number * len(REQUEST) + 40 * ((half, number) == (second, 1))
        sizes = (at, len(REQUEST), len(REQUEST), 0)
        records.append(wire.DATA.pack(DATA, 0, 0, 70, time_ns, half, *sizes) + REQUEST)
        if (half, number) == (first, 2):
            records.append(addresses(first, SOCKET + 1))
    long, fast = run(records, None, make), run(records, FastPath(), make)
    assert fast[:3] == long[:3]
    assert sum(loss.bytes or 0 for loss in fast.totals.losses) == 40
    assert fast.fast > 1


@pytest.mark.parametrize("make", SINKS.values(), ids=SINKS)
def test_halves_take_the_fast_path_until_their_keys_change(make: Make) -> None:
    records = []
    for read, write in ((11, 12), (13, 14)):
        records += [opened(read, True, 1, 1), opened(write, True, 1, 2)]
        records += [addresses(read, SOCKET), addresses(write, SOCKET)]
        for number in range(100):
            for half, direction, data in ((write, 1, REQUEST), (read, 0, RESPONSE)):
                sizes = (number * len(data), len(data), len(data), 0)
                records.append(wire.DATA.pack(DATA, direction, 0, 70, number, half, *sizes) + data)
    assert run(records, FastPath(), make).fast == 198


@pytest.mark.parametrize("make", SINKS.values(), ids=SINKS)
def test_all_that_follows_takes_the_fast_path(make: Make) -> None:
    """But for the first bytes of each direction, however the directions take turns."""
    records = [opened(1, True), addresses(1)]
    for number in range(100):
        for direction, data in ((1, REQUEST), (0, RESPONSE)):
            sizes = (number * len(data), len(data), len(data), 0)
            records.append(wire.DATA.pack(DATA, direction, 0, 70, number, 1, *sizes) + data)
    assert run(records, FastPath(), make).fast == 198


def test_threads_that_take_turns_take_the_fast_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """As do tasks that move from thread to thread: Python is asked for the first of each."""
    asked = []
    template = PcapWriter.template

    def noted(*arguments: Any, **more: Any) -> Template:
        asked.append(arguments)
        return template(*arguments, **more)

    records = [opened(1, True), addresses(1)]
    for number in range(100):
        sizes = (number * len(REQUEST), len(REQUEST), len(REQUEST), 0)
        records.append(wire.DATA.pack(DATA, 1, 0, 70 + number % 4, number, 1, *sizes) + REQUEST)
    monkeypatch.setattr(PcapWriter, "template", noted)
    assert run(records, FastPath(), SINKS["pcap"]).fast == 99
    assert [origin.process[1] for _, origin, *_ in asked if origin.process[1]] == [70, 71, 72, 73]


def event(record: bytes) -> events.Event:
    """Return the event of a record, of a connection that is whole in itself."""
    parsed = wire.parse(memoryview(record), OFFSET_NS)
    assert not isinstance(parsed, events.Paired | events.SocketGone | events.LeftOut)
    assert not isinstance(parsed, events.SocketEnded)
    assert not isinstance(parsed, events.CgroupMade | events.TlsSocket | events.Failure)
    return parsed


def test_nothing_is_offered_where_plaintext_is_wanted_and_decoded() -> None:
    builder = ExchangeBuilder([PcapSink(io.BytesIO()), Sink()])
    fast_path = FastPath()
    flows = Flows(["openssl"], builder, fast_path)
    for record in (
        opened(1, True),
        addresses(1),
        wire.DATA.pack(DATA, 1, 0, 70, 1, 1, 0, 5, 5, 0) + b"hello",
    ):
        flows.handle(event(record))
    assert not fast_path.connections


class ByPiece:
    """A consumer that notes what becomes of it."""

    by_record: Any = None

    def __init__(self, did: list[str]) -> None:
        self.position = self.last_ns = 0
        self.did = did

    def feed(self, time_ns: int, tid: int, data: memoryview) -> None:
        self.position += len(data)
        self.did.append(bytes(data).decode())


class ByRecord:
    """See ``ByPiece``: consumes no record, so that pieces follow."""

    def __init__(self, did: list[str]) -> None:
        self.did = did

    def consume(self, key: int, records: Records, clock_offset_ns: int) -> None:
        self.did.append(f"record of {key}")

    def forget(self) -> None:
        self.did.append("forgotten")

    def flush(self) -> None:
        self.did.append("flushed")


def offered(connection: int) -> tuple[FastPath, list[str]]:
    fast_path, did = FastPath(), list[str]()
    consumer = ByPiece(did)
    consumer.by_record = ByRecord(did)
    fast_path.offer(connection, Direction.WRITE, consumer)
    return fast_path, did


@pytest.mark.parametrize("flag", ["busy", "discarded"])
def test_whole_records_are_consumed_and_flushed(flag: str) -> None:
    """The last one has the bytes that would be the next."""
    a, b, c = (
        wire.DATA.pack(DATA, 1, 0, 70, 1, 1, at, 1, 1, 0) + bytes([word])
        for at, word in enumerate(b"abc")
    )
    other = wire.LEFT_OUT.pack(LEFT_OUT, 0, 0, 70, 1, 2)
    fast_path, did = offered(1)
    ring = laid_out([a, b, other, c], **{flag: 3})
    assert list(fast_path.run(ring, OFFSET_NS)) == [other]
    key = direction_key(1, 1)
    assert did == [f"record of {key}", "a", f"record of {key}", "b", "flushed"]


def test_records_are_flushed_where_the_reading_is_broken_off() -> None:
    consumed = wire.DATA.pack(DATA, 1, 0, 70, 1, 1, 0, 1, 1, 0) + b"a"
    other = wire.LEFT_OUT.pack(LEFT_OUT, 0, 0, 70, 1, 2)
    fast_path, did = offered(1)
    reading = fast_path.run(laid_out([consumed, other]), OFFSET_NS)
    assert next(reading) == other
    assert did[1:] == ["a"]
    del reading
    assert did[2:] == ["flushed"]


def test_a_consumer_without_records_gets_pieces() -> None:
    consumed = wire.DATA.pack(DATA, 1, 0, 70, 1, 1, 0, 1, 1, 0) + b"a"
    fast_path, did = FastPath(), list[str]()
    fast_path.offer(1, Direction.WRITE, ByPiece(did))
    assert not list(fast_path.run(laid_out([consumed]), OFFSET_NS))
    assert did == ["a"]
    taken = fast_path.take_back(1, Direction.WRITE)
    assert taken is not None
    assert taken.position == 1
    assert fast_path.take_back(1, Direction.WRITE) is None


def test_a_key_is_forgotten_when_its_direction_is_taken_back() -> None:
    """Else bytes of another connection, or half, could go its way."""
    fast_path, did = offered(1)
    flows = Flows(["openssl"], ExchangeBuilder([Totals()]), fast_path)
    flows.handle(event(opened(1, True)))
    flows.handle(events.Closed(5, 1, 0, 0))
    assert did == ["forgotten"]
    assert not fast_path.connections


def test_the_key_of_a_half_is_forgotten_when_the_half_is_no_more() -> None:
    fast_path, did = offered(-1)
    halves = RustlsConnections(fast_path)
    data = wire.DATA.pack(DATA, 1, 0, 70, 1, 9, 0, 1, 1, 0) + b"a"
    for record in (opened(9, True, half=2), data):
        list(halves.handle(wire.parse(memoryview(record), OFFSET_NS)))
    list(halves.release())
    assert fast_path.position(9, Direction.WRITE) == 0
    assert did == []
    list(halves.handle(events.Closed(5, 9, 0, 1)))
    assert did == ["forgotten"]
    assert fast_path.position(9, Direction.WRITE) is None
