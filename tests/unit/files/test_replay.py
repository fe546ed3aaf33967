"""Our own captures read back as they were taken; damaged ones, as far as they go."""

import os
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sslsniff.core.errors import CaptureFileError
from sslsniff.core.events import Addresses, Closed, Data, Ended, Opened
from sslsniff.core.losses import LossCause
from sslsniff.core.model import Address, Connection, Direction
from sslsniff.core.process import Process
from sslsniff.decoders.messages import Side
from sslsniff.files.replay import ReplaySource
from tests.unit.captures import (
    LAYOUTS,
    READ,
    REQUEST,
    RESPONSE,
    WRITE,
    Run,
    Step,
    Taker,
    captured,
    events_of,
    http2_steps,
    of_connections,
    plaintext,
    replay,
)


def runs(steps: list[Step], direction: Direction) -> list[Run]:
    """Return the steps of one direction as runs, neighbours joined."""
    joined: list[Run] = []
    at = 0
    for each, what in steps:
        if each is not direction:
            continue
        if isinstance(what, int):
            joined.append((at, what, LossCause.RING_FULL))
            at += what
        elif joined and isinstance(last := joined[-1][1], bytes):
            joined[-1] = (joined[-1][0], last + what, None)
            at += len(what)
        else:
            joined.append((at, what, None))
            at += len(what)
    return joined


TEXT = st.none() | st.text(
    st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=15
)
DATA = st.one_of(
    st.binary(min_size=1, max_size=60),
    st.sampled_from([REQUEST, RESPONSE, bytes(20_000), b"\x16\x03\x03", b"\x17\x03\x03\0\x20"]),
)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(Direction),
        DATA | st.sampled_from([1, 16_384, 20_000, (1 << 20) + 1, 5_000_000_000]),
    ),
    max_size=12,
)


@dataclass
class Taken:
    """A connection to write, and what passes on it."""

    steps: list[Step]
    role: Side | None
    from_start: bool
    addressed: bool
    ip: str
    port: int
    process: Process
    alpn: str | None
    others: tuple[str | None, str | None, str | None]


TAKEN = st.builds(
    Taken,
    STEPS,
    st.sampled_from([*Side, None]),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["127.0.0.1", "2001:db8::1"]),
    st.sampled_from([80, 443, 12345]),
    st.builds(Process, st.integers(1, 2**22), st.text(max_size=15), st.none() | st.just(5)),
    st.sampled_from([None, "h2", "http/1.1"]),
    st.tuples(TEXT, TEXT, TEXT),
)

FACTS = (
    "role",
    "library",
    "from_start",
    "opened_ns",
    "local",
    "remote",
    "sni",
    "alpn",
    "tls_version",
    "cipher",
    "bytes_read",
    "bytes_written",
)


@pytest.mark.tools
@settings(max_examples=150, deadline=None)
@given(st.lists(TAKEN, min_size=1, max_size=4), st.sampled_from(LAYOUTS), st.integers(0, 1 << 30))
def test_written_is_read(
    tmp_path_factory: pytest.TempPathFactory,
    taken: list[Taken],
    layout: str,
    seed: int,
) -> None:
    turns = [i for i, each in enumerate(taken) for _ in each.steps]
    Random(seed).shuffle(turns)
    path = tmp_path_factory.mktemp("replay") / "file.pcapng"
    taker = Taker(path, layout=layout)
    connections: list[Connection] = []
    for each in taken:
        connection = taker.open(
            each.port,
            ip=each.ip,
            role=each.role,
            from_start=each.from_start,
            alpn=each.alpn,
            addressed=each.addressed,
            process=each.process,
        )
        connection.sni, connection.tls_version, connection.cipher = each.others
        connections.append(connection)
    left = [iter(each.steps) for each in taken]
    for i in turns:
        taker.pass_steps(connections[i], [next(left[i])])
    for connection in connections:
        taker.end(connection)
    taker.close()

    seen = replay(path)
    assert len(seen) == len(taken)
    # Connections were opened at the same time: find each again by all that is known of it.
    for connection, each in zip(connections, taken, strict=True):
        expected = [runs(each.steps, direction) for direction in Direction]
        (same, *_) = [
            one
            for one in seen
            if one.connection.process == connection.process
            and [one.runs[direction] for direction in Direction] == expected
            and all(getattr(one.connection, f) == getattr(connection, f) for f in FACTS)
        ]
        assert same.closed_ns is not None
        assert same.tids <= {1240, 0}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_times_threads_and_order(layout: str) -> None:
    steps: list[Step] = [(WRITE, REQUEST), (READ, RESPONSE), (WRITE, REQUEST), (READ, 100)]
    events, source = events_of(captured(steps, layout=layout))
    opened, addresses, *data, ended, closed = events
    assert isinstance(opened, Opened)
    assert isinstance(addresses, Addresses)
    assert isinstance(closed, Closed)
    start = opened.time_ns
    assert [event.time_ns - start for event in data] == [1_000_001 * i for i in (1, 2, 3, 4)]
    assert {event.tid for event in data if isinstance(event, Data)} == {1240}
    assert ended == Ended(start + 5_000_005, 1, WRITE, 2 * len(REQUEST))
    assert closed == Closed(start + 5_000_005, 1, len(RESPONSE) + 100, 2 * len(REQUEST))
    assert source.libraries == ["unknown", "libssl.so.3"]
    assert opened.library == 1
    assert data[-1] == Data(
        start + 4_000_004, 1240, 1, READ, len(RESPONSE), 100, b"", LossCause.RING_FULL
    )


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("from_start", [True, False])
def test_classic_pcap_keeps_bytes_addresses_and_microseconds(layout: str, from_start: bool) -> None:
    steps: list[Step] = [(WRITE, REQUEST), (READ, RESPONSE)]
    events, _ = events_of(captured(steps, "pcap", layout, from_start=from_start))
    opened, addresses, request, response, _, closed = events
    assert isinstance(opened, Opened)
    assert (opened.role, opened.pid, opened.comm) == (Side.CLIENT, 0, "")
    if layout == "null-tls":
        assert (opened.sni, opened.alpn) == ("host1.example.org", "http/1.1")
        assert opened.from_start == from_start
    assert addresses == Addresses(
        request.time_ns, 1, Address("127.0.0.1", 40001), Address("127.0.0.1", 8443)
    )
    assert isinstance(request, Data)
    assert isinstance(response, Data)
    assert (request.direction, request.data) == (WRITE, REQUEST)
    assert (response.direction, response.data) == (READ, RESPONSE)
    assert request.time_ns == 1_700_000_000_124_456_000
    assert isinstance(closed, Closed)


@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["pcap", "pcapng"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_cut(kind: str, layout: str, tmp_path: Path) -> None:
    steps: list[Step] = [(READ, b"tail"), (WRITE, REQUEST), (READ, RESPONSE), (READ, 50), *()]
    raw = captured(steps, kind, layout, from_start=False)
    whole, _ = events_of(raw)
    path = tmp_path / "cut"
    counts = set()
    for cut in range(0, len(raw), 3):
        path.write_bytes(raw[:cut])
        try:
            source = ReplaySource(path)
        except CaptureFileError:
            assert cut < 4
            continue
        events = [e for e in of_connections(source) if not isinstance(e, Ended | Closed)]
        # In classic pcap each part is a connection of its own, which ends.
        assert events == [e for e in whole if not isinstance(e, Ended | Closed)][: len(events)]
        assert source.ended
        assert bool(source.warnings) == source.truncated
        counts.add(len(events))
    assert len(counts) > 4


@pytest.mark.tools
@settings(max_examples=200, deadline=None)
@given(st.data())
def test_any_damage(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(["pcap", "pcapng"]))
    steps: list[Step] = [(READ, b"tail"), (WRITE, REQUEST), (READ, 50), (READ, RESPONSE)]
    raw = bytearray(captured(steps, kind, data.draw(st.sampled_from(LAYOUTS)), from_start=False))
    for _ in range(data.draw(st.integers(1, 5))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    try:
        events, _ = events_of(bytes(raw))
    except CaptureFileError:
        return
    opened = [event.connection for event in events if isinstance(event, Opened)]
    assert len(set(opened)) == len(opened)
    for event in events:
        assert isinstance(event, Opened) or event.connection in opened  # type: ignore[union-attr]


@pytest.mark.tools
@given(st.binary(max_size=200))
def test_any_file(raw: bytes) -> None:
    for start in (b"", b"\x0a\x0d\x0d\x0a", b"\xd4\xc3\xb2\xa1"):
        try:
            events_of(start + raw)
        except CaptureFileError as error:
            assert error.remedy  # noqa: PT017


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with pytest.raises(CaptureFileError, match="No such file"):
        ReplaySource(path)
    path.touch()
    with pytest.raises(CaptureFileError, match="is empty"):
        ReplaySource(path)
    path.write_bytes(b"GIF89a")
    with pytest.raises(CaptureFileError, match="is not a capture file"):
        ReplaySource(path)
    with pytest.raises(CaptureFileError, match="Is a directory"):
        ReplaySource(tmp_path)


# As a source.


def test_poll_and_finish(tmp_path: Path) -> None:
    path = tmp_path / "file.pcapng"
    taker = Taker(path)
    connection = taker.open()
    taker.pass_steps(connection, [(WRITE, b"x")] * 10_000)
    taker.end(connection)
    taker.close()
    source = ReplaySource(path)
    first = list(source.poll(0.1))
    assert len(first) == 4096
    assert not source.ended
    rest = list(source.finish())
    assert source.ended
    assert len(rest) <= 1  # it reads no further
    source = ReplaySource(path)
    events = []
    while not source.ended:
        events += list(source.poll(0.1))
    assert len(of_connections(events)) == 10_004
    assert list(source.finish()) == []


def test_http2_is_whole(tmp_path: Path) -> None:
    steps = http2_steps(3, os.urandom(40_000))
    for layout in LAYOUTS:
        path = tmp_path / f"{layout}.pcapng"
        taker = Taker(path, layout=layout)
        taker.take(steps, alpn="h2")
        taker.close()
        (seen,) = replay(path)
        for direction in Direction:
            passed = b"".join(what for d, what in steps if d is direction)  # type: ignore[misc]
            assert plaintext(seen, direction) == passed


def test_ids_and_threads(tmp_path: Path) -> None:
    path = tmp_path / "file.pcapng"
    taker = Taker(path)
    taker.open()  # nothing passes on it
    passed = [taker.open(process=Process(pid, "curl", 0)) for pid in (11, 22)]
    steps: list[Step] = [(WRITE, REQUEST), (READ, 100), (READ, 5_000_000)]
    for connection, tid in zip(reversed(passed), (13, 24), strict=True):
        taker.pass_steps(connection, steps, tid)
    taker.close()
    found = {seen.connection.id: seen.tids for seen in replay(path)}
    assert found == {passed[1].id: {13}, passed[0].id: {24}, "1234-1": set()}


def test_source_that_is_left(tmp_path: Path) -> None:
    path = tmp_path / "file.pcapng"
    taker = Taker(path)
    taker.take([(WRITE, REQUEST)])
    taker.close()
    source = ReplaySource(path)
    assert next(iter(source))
    source.close()
    source.close()
    assert list(source) == []
    assert source.ended


def test_connections_of_several_captures_in_one_file_have_ids_of_their_own(tmp_path: Path) -> None:
    """A pcapng file may have several sections, each with connections of the same names."""
    path = tmp_path / "taken.pcapng"
    taker = Taker(path)
    taker.take([(WRITE, REQUEST), (READ, RESPONSE)])
    taker.close()
    path.write_bytes(2 * path.read_bytes())
    names = [event.name for event in ReplaySource(path) if isinstance(event, Opened)]
    assert len({*names}) == 2
    assert str(names[1]).startswith(f"{names[0]}-")
