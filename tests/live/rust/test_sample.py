"""``--sample`` with rustls: both halves of a connection are shown, or neither is."""

from pathlib import Path

import pytest

from tests.live.checks import Sniff, connections, seen
from tests.live.running import ask
from tests.workload.rust.fixtures import fixtures
from tests.workload.servers import Certificate, built_server

pytestmark = pytest.mark.heavy

[PROGRAM] = [
    each.path
    for each in fixtures("server")
    if (each.tls, each.profile) == ("rustls-0-23-ring", "release")
]
AT_ONCE = (*[("1", 4)] * 4, *[("2", 6)] * 4)
ROUNDS = 8


def test_halves_fall_alike(certificate: Certificate, tmp_path: Path, sniff: Sniff) -> None:
    with (
        built_server(PROGRAM, certificate) as server,
        sniff("--sample", "1/3", "--pid", str(server.pid)) as sniffer,
    ):
        passed = [
            one
            for number in range(ROUNDS)
            for one in ask(server, certificate, tmp_path / f"{number}", "-s", connections=AT_ONCE)
        ]
        captured = sniffer.stop()

    clients = {each.client for each in passed}
    shown = [seen(each) for each in captured.exchanges]
    kept = {each.client for each in shown}
    assert len(clients) == ROUNDS * len(AT_ONCE)
    # 21 are to be expected: outside of this is one run of a million.
    assert 4 <= len(kept) <= 42
    assert sorted(shown) == sorted(each for each in passed if each.client in kept)
    assert connections(captured) == len(kept)
    summary = captured.summary
    assert (summary["lost_bytes"], summary["joined_connections"]) == (0, 0)
    assert summary["left_out_connections"] == len(clients) - len(kept)
