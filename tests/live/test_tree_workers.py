"""gunicorn, and Apache before it: a worker serves one request, which can hardly be seen.

gunicorn's workers read what is there already, and Apache's sockets do not block: without ids, what
they ask for a request is left apart. Both ends of each connection are joined, none wrongly.
"""

import contextlib
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.checks import Sniff, read
from tests.live.sniffer import Captured
from tests.live.test_tree_threads import EACH, Object, name_of, order
from tests.workload.apache import running_apache
from tests.workload.gunicorn import running_gunicorn
from tests.workload.processes import PROGRAMS
from tests.workload.servers import Certificate, Server, running_server

AT_ONCE = 20
COUNT = AT_ONCE * EACH


@contextlib.contextmanager
def running_workers(
    certificate: Certificate, folder: Path, workers: str, client: str, proxy: str | None = None
) -> Iterator[list[Server]]:
    """Run a service, gunicorn that asks it, perhaps Apache before it; the last is to be asked."""
    program = PROGRAMS / "python/blocking_orders.py"
    with contextlib.ExitStack() as running:
        start = running.enter_context
        stock = start(
            running_server(sys.executable, program, certificate.certificate, certificate.key)
        )
        application = start(running_gunicorn(certificate, stock.port, workers, client))
        servers = [stock, application]
        if proxy is not None:
            servers.append(start(running_apache(certificate, folder, application.port, proxy)))
        yield servers


def edges(captured: Captured) -> tuple[Counter[str], Counter[str]]:
    """Return how many edges orders have, and how many are found, by kind; none is wrong.

    A kind is ``connection``, or the name of the process that asked for a request.
    """
    above = {_place(each, each["role"]): each["id"] for each in captured.exchanges}
    assert len(above) == len(captured.exchanges)
    there: Counter[str] = Counter()
    found: Counter[str] = Counter()
    for each in captured.exchanges:
        is_end = each["role"] == "server"
        parent = above.get(_place(each, "client" if is_end else "server"))
        kind = "connection" if is_end else each["comm"]
        there[kind] += parent is not None
        if each["parent"] is not None:
            assert each["parent"] == parent
            found[kind] += 1
    return there, found


def _place(each: Object, role: str) -> tuple[object, ...]:
    """Return where the exchange of a role is that has to do with this one: maybe itself."""
    if role == "server":
        return (name_of(each), each["pid"])
    ends = (each[end] for end in ("client", "server"))
    return (name_of(each), *((end["ip"], end["port"]) for end in ends))


@pytest.mark.parametrize("client", ["requests", "http.client"])
@pytest.mark.parametrize("workers", ["sync", "gthread"])
def test_gunicorn(
    certificate: Certificate, tmp_path: Path, sniff: Sniff, workers: str, client: str
) -> None:
    with (
        running_workers(certificate, tmp_path, workers, client) as servers,
        sniff("--tree", *(f"--pid={each.pid}" for each in servers)) as sniffer,
    ):
        order(servers[-1].port, certificate, AT_ONCE)
        captured = sniffer.stop()
    there, found = edges(captured)
    assert sorted(there.values()) == [COUNT, COUNT]
    assert found["connection"] == COUNT


@pytest.mark.parametrize("proxy", ["event", "prefork"])
def test_apache(certificate: Certificate, tmp_path: Path, sniff: Sniff, proxy: str) -> None:
    """Raw plaintext may be beside trees, live and of a file."""
    file = tmp_path / "capture.pcapng"
    options = "--tree", "--chunks"
    with (
        running_workers(certificate, tmp_path, "gthread", "requests", proxy) as servers,
        sniff(*options, f"--pcap={file}", *(f"--pid={each.pid}" for each in servers)) as sniffer,
    ):
        order(servers[-1].port, certificate, AT_ONCE)
        captured = sniffer.stop()
    for each in (captured, read(file, *options)):
        there, found = edges(each)
        assert (there["connection"], there["apache2"]) == (2 * COUNT, COUNT)
        assert found["connection"] == 2 * COUNT
        assert not found["apache2"]
        decoded = {exchange["id"].split("/")[0] for exchange in each.exchanges}
        assert {chunk["connection"] for chunk in each.of("chunk")} == decoded


def test_ids(certificate: Certificate, tmp_path: Path, sniff: Sniff) -> None:
    """Apache passes on the header of the client, and the application does."""
    with (
        running_workers(certificate, tmp_path, "gthread", "requests", "event") as servers,
        sniff("--tree", *(f"--pid={each.pid}" for each in servers)) as sniffer,
    ):
        order(servers[-1].port, certificate, AT_ONCE, with_ids=True)
        captured = sniffer.stop()
    there, found = edges(captured)
    assert there.total() == 4 * COUNT
    assert found == there
