"""An hour at 40 requests a second with one failure in 500 stays in 100 MB, with every failure."""

from pathlib import Path

import pytest

from sslsniff import decode
from sslsniff.outputs.pcap.capture_writer import PcapSink
from sslsniff.outputs.pcap.rotation import Rotation
from tests.live.checks import Record
from tests.unit.captures import READ, WRITE, answer, complaints, get, tshark_values
from tests.unit.filters.passed_around import Passed

REQUESTS = 3600 * 40
CONNECTIONS = 8
EVERY = 500
LIMIT_BYTES = 100 << 20
FILES = 3
BODY = bytes(range(256)) * 21 + bytes(131)  # 5,507 bytes


@pytest.mark.heavy
@pytest.mark.parametrize("around", [0, 5])
def test_every_failure_of_an_hour_is_there(
    tmp_path: Path, record_property: Record, around: int
) -> None:
    series = Rotation(tmp_path / "out.pcapng", LIMIT_BYTES // FILES, FILES, force=False)
    passed = Passed(around, "~e", PcapSink(series.next(), "pcapng", "null-tls", series))
    whole = answer(BODY)
    cut = whole[: len(whole) - len(BODY) + 2900]
    connections = list(range(1, CONNECTIONS + 1))
    for each in connections:
        passed.open(each)
    failed = []
    for number in range(REQUESTS):
        at = number % CONNECTIONS
        is_cut = number % EVERY == EVERY // 2
        target = f"/{number}"
        steps = [(WRITE, get(target)), (READ, cut if is_cut else whole)]
        passed.send(connections[at], steps)
        if is_cut:
            failed.append(target)
            passed.close(connections[at])
            connections[at] = number + 100
            passed.open(connections[at])
    passed.finish()
    series.close()
    files = sorted(tmp_path.iterdir())
    size = sum(file.stat().st_size for file in files)
    record_property("bytes on disk", size)
    assert size <= LIMIT_BYTES
    exchanges = [exchange for file in files for exchange in decode(file)]
    ends = [str(each.request.target) for each in exchanges if each.error and each.request]
    assert ends == failed
    assert len(exchanges) == len(failed) * (1 + around)  # each ends its connection
    assert all(each.connection.missing_bytes == 0 for each in exchanges)
    for file in files:
        assert complaints(file) == []
        assert tshark_values(file, "tcp.analysis.lost_segment") == []
