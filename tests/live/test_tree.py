"""Requests through nginx, a service in Python, one in Go, and PostgreSQL: one tree each."""

import os
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.live.checks import Sniff
from tests.live.sniffer import Captured
from tests.workload.go.fixtures import build_all
from tests.workload.orders import STOCK, running_orders
from tests.workload.servers import Certificate

pytestmark = pytest.mark.heavy  # Go

NO_ID = " without id"
IDS = ("traceparent", "x-request-id")
AT_ONCE = 100
COUNT = int(os.environ.get("SSLSNIFF_ORDERS", "1000"))

Object = dict[str, Any]


class Edges(NamedTuple):
    """How many edges there are and were found, by kind, and those that are wrong.

    A kind is ``connection``, or the name of a process that asked another one for a request that it
    served, perhaps with ``NO_ID``; with an id, only those count where all of the header was seen.
    """

    there: Counter[str]
    found: Counter[str]
    wrong: list[tuple[Object, Object | None]]

    def share(self, *kinds: str) -> float:
        """Return which part of the edges of these kinds was found."""
        return sum(self.found[each] for each in kinds) / sum(self.there[each] for each in kinds)


def name_of(each: Object) -> str | None:
    """Return what an order is for: it is in all that belongs to it, and no evidence."""
    if each.get("db") is not None:
        parameters = each["db"]["parameters"]
        return str(parameters[0]) if parameters else None
    return str(each["request"]["body"].get("text")) if each["request"] else None


def headers(each: Object) -> list[list[str | None]]:
    found: list[list[str | None]] = each["request"]["headers"] if each["request"] else []
    return found


def has_id(each: Object) -> bool:
    """Say whether a request or a statement has an id."""
    if each.get("db") is not None:
        return "traceparent" in (each["db"]["text"] or "")
    return any(name and name.lower() in IDS for name, _ in headers(each))


def was_seen(each: Object) -> bool:
    """Say whether all values of a header are known: none was sent before the capture began."""
    return all(value is not None for _, value in headers(each))


def edges(captured: Captured, since: str) -> Edges:
    """Compare the edges with those that the contents of the exchanges prove.

    All are checked, and those ``since`` a time are counted.
    """
    by_id = {each["id"]: each for each in captured.exchanges}
    assert len(by_id) == len(captured.exchanges)
    by_name: dict[str | None, list[Object]] = {}
    for each in captured.exchanges:
        by_name.setdefault(name_of(each), []).append(each)
    made = Edges(Counter(), Counter(), [])
    for each in captured.exchanges:
        name = name_of(each)
        is_end = each["role"] == "server"
        kind = "connection" if is_end else f"{each['comm']}{'' if has_id(each) else NO_ID}"
        where = "client" if is_end else "pid"  # the other end, or the same process
        above = [
            other
            for other in by_name[name]
            if name and other["role"] != each["role"] and other[where] == each[where]
        ]
        is_late = each["time"] >= since
        made.there[kind] += is_late and any(
            is_end or not has_id(each) or was_seen(other) for other in above
        )
        if each["parent"] is not None:
            made.found[kind] += is_late
            parent = by_id.get(each["parent"])
            if parent not in above:
                made.wrong.append((each, parent))
    return made


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    build_all([STOCK])


def ordered(
    certificate: Certificate, folder: Path, sniff: Sniff, *ids: str
) -> tuple[Captured, str]:
    """Make ``COUNT`` orders with these ids, ``AT_ONCE`` at a time.

    Returns what was captured of them and of some before, and when they began.
    """
    with running_orders(certificate, folder, *ids, at_once=AT_ONCE) as orders:
        orders.order(AT_ONCE)  # connections are open that the capture joins in the middle
        pids = [f"--pid={pid}" for pid in orders.pids.values()]
        with sniff("--tree", *pids) as sniffer:
            # Until what HTTP/2 refers to, was sent in the capture.
            orders.order(3 * AT_ONCE)
            since = datetime.now(UTC).isoformat()
            orders.order(COUNT)
            captured: Captured = sniffer.stop()
    return captured, since


@pytest.mark.parametrize(
    "ids", [("traceparent",), ("x-request-id",), ("traceparent", "x-request-id")]
)
def test_with_ids(
    certificate: Certificate, tmp_path: Path, sniff: Sniff, ids: tuple[str, ...]
) -> None:
    found = edges(*ordered(certificate, tmp_path, sniff, *ids))
    assert not found.wrong
    assert found.there["connection"] >= 3 * COUNT
    assert found.share("connection") >= 0.99
    assert found.there["python3"] >= 0.9 * COUNT  # a busy machine may lose bytes
    assert found.share("nginx", "python3") >= 0.99
    if "traceparent" in ids:  # the only id in statements
        assert found.there["stock-1.27.4-pl"] >= 0.9 * COUNT
        assert found.share("stock-1.27.4-pl") >= 0.99


def test_without_ids(certificate: Certificate, tmp_path: Path, sniff: Sniff) -> None:
    found = edges(*ordered(certificate, tmp_path, sniff))
    assert not found.wrong
    assert found.share("connection") >= 0.99
    # A goroutine serves one request at a time; event loops may serve any.
    assert found.share(f"stock-1.27.4-pl{NO_ID}") >= 0.9
    for name in ("nginx", "python3"):
        assert found.there[f"{name}{NO_ID}"] >= 0.9 * COUNT
        assert not found.found[f"{name}{NO_ID}"]
