"""A capture that goes on in further files: each is whole, and together they have everything."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from sslsniff import decode
from sslsniff.core import wire
from sslsniff.core.errors import OutputError
from sslsniff.core.exchanges.exchange_builder import ExchangeBuilder
from sslsniff.core.fast_path import FastPath
from sslsniff.core.flows import Flows
from sslsniff.core.model import Connection
from sslsniff.outputs.pcap.capture_writer import PcapSink
from sslsniff.outputs.pcap.rotation import Rotation, check_series
from tests.unit.captures import (
    READ,
    WRITE,
    Taker,
    answer,
    complaints,
    get,
    http2_steps,
    replay,
    tshark_fields,
    tshark_values,
)
from tests.unit.core.test_fast_path import OFFSET_NS, addresses, opened
from tests.unit.kernel.ring import laid_out

SIZE = 4 << 20
BODY = bytes(range(256)) * 64  # 16 KiB


class Rotated(Taker):
    """A ``Taker`` that writes into files which follow each other."""

    def __init__(self, path: Path, kind: str, layout: str, kept: int | None = None) -> None:
        self.series = Rotation(path, SIZE, kept, force=False)
        super().__init__(self.series.next(), kind, layout, self.series)

    def close(self) -> None:
        self.sink.close()
        self.series.close()


def pass_exchanges(taker: Taker, connections: list[Connection], count: int) -> Iterator[str]:
    for number in range(count):
        target = f"/{number}"
        yield target
        whole = answer(BODY)
        steps = [(WRITE, get(target)), (READ, whole[:9000]), (READ, whole[9000:])]
        taker.pass_steps(connections[number % len(connections)], steps)  # type: ignore[arg-type]


def targets(path: Path) -> list[str]:
    return [
        str(each.request.target)
        for each in decode(path)
        if each.request is not None and each.error is None
    ]


LAYOUTS = [(kind, layout) for kind in ("pcapng", "pcap") for layout in ("null-tls", "plain")]


@pytest.mark.parametrize(("kind", "layout"), LAYOUTS)
def test_each_exchange_is_in_one_file(tmp_path: Path, kind: str, layout: str) -> None:
    taker = Rotated(tmp_path / f"out.{kind}", kind, layout)
    ports = (80, 8080) if layout == "plain" else (8443, 9443)
    connections = [taker.open(port) for port in ports]
    expected = list(pass_exchanges(taker, connections, 500))
    for each in connections:
        taker.end(each)
    taker.close()
    files = sorted(tmp_path.iterdir())
    assert [each.name for each in files] == [
        f"out_{number:05}.{kind}" for number in range(1, len(files) + 1)
    ]
    assert 3 <= len(files) <= 4
    assert all(each.stat().st_size <= SIZE for each in files)
    # The request and the answer that a new file separates are in neither as a whole.
    seen = [each for file in files for each in replay(file)]
    assert all(isinstance(what, bytes) for each in seen for _, what, _ in each.runs[READ])
    found = [target for each in files for target in targets(each)]
    assert found == sorted(found, key=expected.index)
    assert len(expected) - len(found) < len(files)


@pytest.mark.tools
@pytest.mark.parametrize(("kind", "layout"), LAYOUTS[::3])
def test_tshark_reads_each_file_alone(tmp_path: Path, kind: str, layout: str) -> None:
    taker = Rotated(tmp_path / f"out.{kind}", kind, layout)
    connections = [taker.open(80 if layout == "plain" else 8443)]
    expected = list(pass_exchanges(taker, connections, 400))
    taker.end(connections[0])
    taker.close()
    files = sorted(tmp_path.iterdir())
    assert len(files) > 2
    seen = [uri for each in files for uri in tshark_values(each, "http.request.uri")]
    assert seen == expected
    statuses = [code for each in files for code in tshark_values(each, "http.response.code")]
    assert len(expected) - len(statuses) < len(files)
    for each in files:
        assert complaints(each) == []
        assert not tshark_fields(each, "frame.number", only="tcp.analysis.lost_segment")


@pytest.mark.tools
def test_http2_goes_on_as_joined_in_the_middle(tmp_path: Path) -> None:
    taker = Rotated(tmp_path / "out.pcapng", "pcapng", "null-tls")
    connection = taker.open(alpn="h2")
    taker.pass_steps(connection, http2_steps(200, bytes(50_000)))
    taker.end(connection)
    taker.close()
    files = sorted(tmp_path.iterdir())
    assert len(files) > 2
    statuses = [len(tshark_values(each, "http2.headers.status")) for each in files]
    assert min(statuses[:-1]) > 30
    assert sum(statuses) > 200 - len(files)
    exchanges = [list(decode(each)) for each in files]
    assert [each[-1].connection.from_start for each in exchanges] == [True] + [False] * (
        len(files) - 1
    )
    assert {each.connection.id for some in exchanges for each in some} == {connection.id}
    assert all(each.connection.missing_bytes == 0 for some in exchanges for each in some)


def test_only_the_newest_files_stay(tmp_path: Path) -> None:
    other = tmp_path / "out_other.pcapng"
    other.write_bytes(b"of another run")
    taker = Rotated(tmp_path / "out.pcapng", "pcapng", "null-tls", kept=3)
    connection = taker.open()
    most = 0
    for _ in pass_exchanges(taker, [connection], 1000):
        own = [each.stat() for each in tmp_path.iterdir() if each != other]
        most = max(most, sum(each.st_size for each in own))
        assert sum(each.st_blocks * 512 for each in own) <= 3 * SIZE
    taker.close()
    assert 2 * SIZE < most <= 3 * SIZE
    names = [each.name for each in sorted(tmp_path.iterdir())]
    assert names[-1] == other.name
    assert len(names) == 4
    numbers = [int(name[4:9]) for name in names[:-1]]
    assert numbers[0] > 2
    assert numbers == [*range(numbers[0], numbers[0] + 3)]
    assert targets(sorted(tmp_path.iterdir())[-2])[-1] == "/999"


def test_a_gap_at_the_end_of_a_file_is_said_once(tmp_path: Path) -> None:
    taker = Rotated(tmp_path / "out.pcapng", "pcapng", "null-tls")
    connection = taker.open()
    gaps = 9
    for _ in range(gaps):
        taker.pass_steps(connection, [(READ, BODY * 20), (READ, (1 << 20) - 5)])
    taker.end(connection)
    taker.close()
    files = sorted(tmp_path.iterdir())
    assert len(files) > 2
    assert all(each.stat().st_size <= SIZE for each in files)
    seen = [run for each in files for run in replay(each)[0].runs[READ]]
    assert [what for _, what, _ in seen if isinstance(what, int)] == [(1 << 20) - 5] * gaps


def test_the_fast_path_goes_on_in_the_next_file(tmp_path: Path) -> None:
    """Records that are written in C come into the files as those that take the long way."""

    def record(connection: int, direction: int, at: int, data: bytes, time_ns: int) -> bytes:
        head = (2, direction, 0, 7, time_ns, connection, at, len(data), len(data), 0)
        return wire.DATA.pack(*head) + data

    records = [record_ for each in (1, 2) for record_ in (opened(each, True), addresses(each))]
    positions = dict.fromkeys(itertools.product((1, 2), (0, 1)), 0)
    for number in range(700):
        connection = 1 + number % 2
        for direction, data in ((1, get(f"/{number}")), (0, answer(BODY[:15_000]))):
            at = positions[connection, direction]
            records.append(record(connection, direction, at, data, 1000 + number))
            positions[connection, direction] += len(data)
    shown = []
    for name, fast_path in (("fast", FastPath()), ("long", None)):
        folder = tmp_path / name
        folder.mkdir()
        series = Rotation(folder / "out.pcapng", SIZE, None, force=False)
        sink = PcapSink(series.next(), "pcapng", "null-tls", series)
        builder = ExchangeBuilder([sink])
        flows = Flows(["openssl"], builder, fast_path)
        ring = laid_out(records)
        rest = iter(ring.next, None) if fast_path is None else fast_path.run(ring, OFFSET_NS)
        taken = 0
        for view in rest:
            taken += 1
            flows.handle(wire.parse(view, OFFSET_NS))  # type: ignore[arg-type]
        flows.finish()
        builder.finish()
        sink.close()
        series.close()
        files = sorted(folder.iterdir())
        assert len(files) > 2
        assert all(each.stat().st_size <= SIZE for each in files)
        shown.append((len(files), [target for each in files for target in targets(each)]))
        assert (taken < 20) == (fast_path is not None)
    assert len(shown[0][1]) > 690
    assert shown[0] == shown[1]


def test_files_of_an_earlier_run_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "out.pcapng"
    check_series(path, force=False)
    (tmp_path / "out_00007.pcapng").touch()
    with pytest.raises(OutputError, match=r"out_00007\.pcapng exists already"):
        check_series(path, force=False)
    check_series(path, force=True)
    check_series(tmp_path / "out.pcap", force=False)
