"""What a thread does for the request that it waited for; threads of event loops prove nothing."""

import contextlib
import http.client
import ssl
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.live.checks import Sniff
from tests.live.sniffer import Captured
from tests.workload.databases import PASSWORD, postgresql_tls
from tests.workload.orders import running_nginx
from tests.workload.processes import PROGRAMS
from tests.workload.servers import Certificate, Server, running_server

AT_ONCE, EACH = 100, 20
PYTHON = PROGRAMS / "python"

Object = dict[str, Any]


def name_of(each: Object) -> str | None:
    """Return what an order is for: it is in all that belongs to it, and no evidence."""
    if each.get("db") is not None:
        return str(each["db"]["parameters"][0]) if each["db"]["parameters"] else None
    return str(each["request"]["body"].get("text")) if each["request"] else None


def order(port: int, certificate: Certificate, at_once: int, *, with_ids: bool = False) -> None:
    """Make ``EACH`` orders on each of ``at_once`` connections at the same time."""
    trusted = ssl.create_default_context(cafile=certificate.certificate)

    def connection(number: int) -> None:
        client = http.client.HTTPSConnection("localhost", port, context=trusted, timeout=60)
        for count in range(EACH):
            body = f"order-{number}-{count}"
            headers = {"x-request-id": body} if with_ids else {}
            client.request("POST", "/orders", body=body, headers=headers)
            assert client.getresponse().read().decode() == body
        client.close()

    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(connection, range(at_once)))


def edges(captured: Captured) -> tuple[Counter[str], Counter[str]]:
    """Return what was asked for orders, and how much of it is joined, by protocol; none wrongly."""
    by_id = {each["id"]: each for each in captured.exchanges}
    there: Counter[str] = Counter()
    found: Counter[str] = Counter()
    for each in captured.exchanges:
        name = name_of(each)
        if each["parent"] is not None:
            assert name
            assert name_of(by_id[each["parent"]]) == name
            assert each["evidence"] == "thread"
            found[each["protocol"]] += 1
        if each["role"] == "client" and (name or "").startswith("order"):
            there[each["protocol"]] += 1
    return there, found


def test_a_thread_for_each_connection(certificate: Certificate, sniff: Sniff) -> None:
    files = certificate.certificate, certificate.key
    program = PYTHON / "blocking_orders.py"
    with (
        postgresql_tls(certificate) as database,
        running_server(sys.executable, program, *files) as stock,
        running_server(
            *(sys.executable, program, *files),
            *(str(stock.port), str(database.port), PASSWORD),
        ) as service,
        sniff("--tree", f"--pid={service.pid}") as sniffer,
    ):
        order(service.port, certificate, AT_ONCE)
        captured = sniffer.stop()
    there, found = edges(captured)
    assert there == {"http/1.1": AT_ONCE * EACH, "postgresql": AT_ONCE * EACH}
    for protocol, count in there.items():
        assert found[protocol] >= 0.9 * count


@contextlib.contextmanager
def event_loop(kind: str, certificate: Certificate, folder: Path, stock: int) -> Iterator[Server]:
    """Run a service on an event loop that passes orders on."""
    files = certificate.certificate, certificate.key
    if kind == "nginx":
        with running_nginx(certificate, folder, stock) as (pid, port):
            yield Server(pid, port)
        return
    command = {
        "asyncio": (sys.executable, PYTHON / "order_service.py"),
        "node": ("node", PROGRAMS / "node/order_service.js"),
    }[kind]
    with running_server(*command, *files, str(stock)) as service:
        yield service


@pytest.mark.parametrize("at_once", [1, 20])
@pytest.mark.parametrize("kind", ["asyncio", "node", "nginx"])
def test_no_event_loop(
    certificate: Certificate, tmp_path: Path, sniff: Sniff, kind: str, at_once: int
) -> None:
    files = certificate.certificate, certificate.key
    with (
        running_server(sys.executable, PYTHON / "blocking_orders.py", *files) as stock,
        event_loop(kind, certificate, tmp_path, stock.port) as service,
        sniff("--tree", f"--pid={service.pid}") as sniffer,
    ):
        order(service.port, certificate, at_once)
        captured = sniffer.stop()
    there, found = edges(captured)
    assert there.total() >= at_once * EACH
    assert not found
