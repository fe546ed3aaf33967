"""Events of a connection, as messages and back: what comes out is what went in."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from grpc_tools import protoc
from hypothesis import given
from hypothesis import strategies as st

from sslsniff.core.events import Addresses, Closed, Data, Event, Opened
from sslsniff.core.flows import Flows
from sslsniff.core.losses import LossCause
from sslsniff.core.model import Address, Chunk, Connection, Direction
from sslsniff.files.kafka import schema
from sslsniff.files.kafka.plaintext import CLOSED, ReceivedConnection, parse
from sslsniff.files.kafka.topic_writer import MOST_MESSAGE_BYTES
from sslsniff.files.replay import ReplaySource
from sslsniff.forms.exchange_columns import exchange_columns
from sslsniff.outputs.kafka.kafka_plaintext import KafkaPlaintext
from tests.chunks_only import ChunksOnly
from tests.unit.exchanges import START_NS, connection

PCAPS = Path(__file__).parents[4] / "pcaps"
READ, WRITE = Direction.READ, Direction.WRITE


class Messages:
    """Stands in for the topic: what it is sent, by key."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, bytes]] = []

    def send(self, key: str, value: bytes) -> None:
        self.sent.append((key, value))

    def serve(self) -> None: ...

    def close(self, within_s: float) -> None: ...

    @property
    def values(self) -> list[bytes]:
        return [value for _, value in self.sent]


class Kept(ChunksOnly):
    """A listener that keeps its calls, in a form to compare."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def opened(self, connection: Connection, time_ns: int) -> None:
        process = connection.process
        self.calls.append(("opened", time_ns, process.pid, process.comm, process.container))
        self.calls.append((connection.library, connection.from_start, connection.sni))

    def chunk(self, chunk: Chunk) -> None:
        of = chunk.connection
        self.calls.append((chunk.time_ns, chunk.tid, chunk.direction, chunk.data, chunk.missing))
        self.calls.append((chunk.cause, of.role, of.local, of.remote, of.cipher, of.alpn))

    def ended(self, connection: Connection, direction: Direction, time_ns: int) -> None:
        self.calls.append(("ended", time_ns, direction))

    def handshake(self, handshake: object) -> None:
        """Ignore it."""

    def closed(self, connection: Connection, time_ns: int) -> None:
        self.calls.append(("closed", time_ns, connection.bytes_read, connection.bytes_written))


def events_of(values: list[bytes]) -> Iterator[Event]:
    libraries: list[str] = []
    received: dict[str, ReceivedConnection] = {}
    for offset, value in enumerate(values):
        message = parse(value)
        key = message.connection.id
        if key not in received:
            received[key] = ReceivedConnection(len(received) + 1, offset, message)
            yield received[key].opened(key, message, libraries)
        yield from received[key].events(message)


def calls_of(events: Iterator[Event], libraries: list[str]) -> list[tuple[Any, ...]]:
    kept = Kept()
    flows = Flows(libraries, kept)
    for event in events:
        flows.handle(event)
    return kept.calls


@pytest.mark.parametrize("capture", sorted(PCAPS.glob("*.pcapng")), ids=lambda path: path.stem)
@pytest.mark.parametrize("flushes", [False, True])
def test_captures(capture: Path, flushes: bool) -> None:
    """Each chunk in a message of its own, and all of a connection in one."""
    source = ReplaySource(capture)
    wanted = calls_of(iter(source), source.libraries)
    messages = Messages()
    sink = KafkaPlaintext(messages, 1)  # type: ignore[arg-type]
    source = ReplaySource(capture)
    flows = Flows(source.libraries, sink)  # type: ignore[arg-type]
    for event in source:
        if not hasattr(event, "connection"):
            continue
        flows.handle(event)
        if flushes:
            sink.flush()
    sink.close()
    assert (len(messages.sent) > 3) == flushes
    assert calls_of(events_of(messages.values), ["openssl"]) == wanted
    [key] = {key for key, _ in messages.sent}
    assert key.endswith(f"/{parse(messages.values[0]).connection.id}")


def sink_with_connection() -> tuple[KafkaPlaintext, Messages, Connection]:
    messages = Messages()
    sink = KafkaPlaintext(messages, 1)  # type: ignore[arg-type]
    on = connection()
    sink.opened(on, START_NS)
    return sink, messages, on


def test_a_message_that_was_dropped_is_a_loss() -> None:
    sink, messages, on = sink_with_connection()
    for offset, data in ((0, b"ab"), (2, b"cde"), (5, b"f")):
        sink.chunk(Chunk(on, WRITE, START_NS, 7, offset, data))
        sink.flush()
    values = messages.values
    [lost] = [event for event in events_of([values[0], values[2]]) if getattr(event, "cut", None)]
    assert isinstance(lost, Data)
    assert (lost.position, lost.span, lost.cut) == (2, 3, LossCause.NOT_DELIVERED)


def test_a_message_that_comes_twice_counts_once() -> None:
    sink, messages, on = sink_with_connection()
    for offset, data in ((0, b"ab"), (2, b"cde")):
        sink.chunk(Chunk(on, WRITE, START_NS, 7, offset, data))
        sink.flush()
    first, second = messages.values
    found = [e.data for e in events_of([first, first, second, first]) if isinstance(e, Data)]
    assert found == [b"ab", b"cde"]


def test_joined_in_the_middle() -> None:
    """Positions begin at what came first; it is not the beginning of the connection."""
    sink, messages, on = sink_with_connection()
    for offset, data in ((0, b"ab"), (2, b"cde")):
        sink.chunk(Chunk(on, READ, START_NS, 7, offset, data))
        sink.flush()
    opened, addresses, event = events_of(messages.values[1:])
    assert isinstance(opened, Opened)
    assert not opened.from_start
    assert isinstance(addresses, Addresses)
    assert isinstance(event, Data)
    assert (event.position, event.data) == (0, b"cde")


def test_addresses_and_their_change_are_told_once() -> None:
    sink, messages, on = sink_with_connection()
    on.local = None
    for number in range(3):
        sink.chunk(Chunk(on, READ, START_NS, 7, number, b"x"))
        sink.flush()
        on.local = Address("192.0.2.1", 4)
    found = [event for event in events_of(messages.values) if isinstance(event, Addresses)]
    assert [each.local for each in found] == [Address("192.0.2.1", 4)]


def test_a_large_chunk_is_several_messages() -> None:
    sink, messages, on = sink_with_connection()
    data = bytes(range(256)) * (MOST_MESSAGE_BYTES // 100)
    consumer = sink.consumer(on, WRITE)
    assert consumer is not None
    consumer.feed(START_NS, 7, memoryview(data))
    assert consumer.position == len(data)
    sink.left_open(on)
    assert all(len(value) < MOST_MESSAGE_BYTES + 1000 for value in messages.values)
    events = [*events_of(messages.values)]
    assert b"".join(event.data for event in events if isinstance(event, Data)) == data
    assert isinstance(events[-1], Closed)
    assert parse(messages.values[-1]).parts[-1].kind == CLOSED


@pytest.mark.tools
@given(st.lists(st.tuples(st.booleans(), st.binary(max_size=5), st.integers(0, 3)), max_size=30))
def test_any_chunks(chunks: list[tuple[bool, bytes, int]]) -> None:
    sink, messages, on = sink_with_connection()
    offsets = {READ: 0, WRITE: 0}
    wanted = {READ: b"", WRITE: b""}
    for writes, data, missing in chunks:
        direction = WRITE if writes else READ
        if missing:
            offsets[direction] += missing
            chunk = Chunk(on, direction, START_NS, 7, offsets[direction], b"", missing)
            wanted[direction] += b"?" * missing
        else:
            chunk = Chunk(on, direction, START_NS, 7, offsets[direction], data)
            offsets[direction] += len(data)
            wanted[direction] += data.replace(b"?", b"!")
        sink.chunk(chunk)
        if len(data) % 2:
            sink.flush()
    sink.closed(on, START_NS)
    found = {READ: b"", WRITE: b""}
    for event in events_of(messages.values):
        if isinstance(event, Data):
            assert event.position == len(found[event.direction])
            shown = event.data.replace(b"?", b"!")
            found[event.direction] += shown.ljust(event.span, b"?")
    assert found == wanted


def test_the_compiled_schema_is_that_of_the_text(tmp_path: Path) -> None:
    folder = Path(schema.__file__).parent
    compiled = tmp_path / "messages.binpb"
    code = protoc.main(
        ["protoc", f"-I{folder}", f"--descriptor_set_out={compiled}", "messages.proto"]
    )
    assert code == 0
    assert compiled.read_bytes() == (folder / "messages.binpb").read_bytes()


def test_the_schema_of_exchanges_has_the_columns_of_tables() -> None:
    fields = schema.Exchange.DESCRIPTOR.fields
    assert [field.name for field in fields] == [column.name for column in exchange_columns(0)]
    assert [field.number for field in fields] == [*range(1, len(fields) + 1)]


def test_texts_that_cannot_be_encoded() -> None:
    sink, messages, on = sink_with_connection()
    on.process.comm = on.sni = "a\udcff"
    sink.chunk(Chunk(on, WRITE, START_NS, 7, 0, b"x"))
    sink.flush()
    [value] = messages.values
    assert (parse(value).connection.comm, parse(value).connection.sni) == (r"a\udcff",) * 2


def test_many_losses_are_not_more_than_a_broker_takes() -> None:
    sink, messages, on = sink_with_connection()
    for number in range(1, 20_000):
        sink.chunk(Chunk(on, WRITE, 2**63, 2**22, number << 40, b"", 1 << 40, LossCause.UNREADABLE))
    sink.flush()
    assert len(messages.values) > 1
    assert max(map(len, messages.values)) < MOST_MESSAGE_BYTES + 1000


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\xff\xff",
        b'{"type":"exchange"}',
        schema.Plaintext(machine="m").SerializeToString(),
        schema.Plaintext(connection={"id": "1-1"}, read=2**64 - 1).SerializeToString(),
        schema.Plaintext(connection={"id": "1-1"}, parts=[{"missing": 2**63}]).SerializeToString(),
    ],
)
def test_what_is_no_plaintext(value: bytes) -> None:
    assert parse(value) is None


def test_a_role_that_is_none() -> None:
    value = schema.Plaintext(connection={"id": "1-1", "role": "proxy"}).SerializeToString()
    [opened] = events_of([value])
    assert isinstance(opened, Opened)
    assert opened.role is None
