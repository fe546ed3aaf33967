"""A capture of a service of which one path becomes slow: ``POST /reserve/sku-17``."""

import heapq
import random
from pathlib import Path

from sslsniff.core.model import Connection
from sslsniff.core.process import Process
from sslsniff.decoders.messages import Side
from tests.unit.captures import READ, WRITE, Taker

SLOW_PATH = "/reserve/sku-17"
_SKUS = 60
_MILLISECOND_NS = 1_000_000
_RESPONSE = b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nContent-Length: 17\r\n\r\n"


def write_slow_path(
    path: Path,
    count: int = 6000,
    *,
    slow_from: float = 0.6,
    slow_until: float = 1.0,
    gap_ms: int = 30,
) -> int:
    """Write a capture of ``count`` exchanges, one each ``gap_ms``.

    From the share ``slow_from`` of them until ``slow_until`` the path takes 2 s in place of 20 ms.
    Half of the requests are for others, of which one fails more often from the middle on. Returns
    the time at which the path became slow.
    """
    chosen = random.Random(7)
    taker = Taker(path)
    began_ns = slow_ns = taker.now_ns
    free: list[Connection] = []
    ending: list[tuple[int, int, Connection, bytes]] = []
    for number in range(count):
        begins_ns = began_ns + number * gap_ms * _MILLISECOND_NS
        while ending and ending[0][0] <= begins_ns:
            _answer(taker, free, *heapq.heappop(ending))
        if number == int(slow_from * count):
            slow_ns = begins_ns
        is_slow = slow_from * count <= number < slow_until * count
        method, target, took_ns, status = _exchange(chosen, number / count, is_slow=is_slow)
        connection = free.pop() if free else _opened(taker)
        taker.now_ns = begins_ns - 1_000_001  # a step is so long
        head = f"{method} {target} HTTP/1.1\r\nHost: shop.example.com\r\nContent-Length: 0\r\n\r\n"
        taker.pass_steps(connection, [(READ, head.encode())])
        heapq.heappush(ending, (begins_ns + took_ns, number, connection, status))
    while ending:
        _answer(taker, free, *heapq.heappop(ending))
    for connection in free:
        taker.end(connection)
    taker.close()
    return slow_ns


def _opened(taker: Taker) -> Connection:
    connection = taker.open(8443, role=Side.SERVER, process=Process(1201, "shop"))
    connection.sni = "shop.example.com"
    return connection


def _exchange(chosen: random.Random, share: float, *, is_slow: bool) -> tuple[str, str, int, bytes]:
    took_ms = 20 * chosen.lognormvariate(0, 0.5)
    if chosen.random() < 0.5:
        target = f"/reserve/sku-{chosen.randrange(_SKUS)}"
        if is_slow and target == SLOW_PATH:
            took_ms = 2000 * chosen.lognormvariate(0, 0.1)
        return "POST", target, int(took_ms * _MILLISECOND_NS), b"200 OK"
    if chosen.random() < 0.3:
        fails = chosen.random() < (0.2 if share > 0.5 else 0.005)
        status = b"503 Service Unavailable" if fails else b"200 OK"
        return "GET", "/cart", int(took_ms * _MILLISECOND_NS), status
    target = f"/v1/orders/{chosen.randrange(100_000)}"
    return "GET", target, int(took_ms * _MILLISECOND_NS), b"200 OK"


def _answer(
    taker: Taker,
    free: list[Connection],
    ends_ns: int,
    _: int,
    connection: Connection,
    status: bytes,
) -> None:
    taker.now_ns = ends_ns - 1_000_001
    taker.pass_steps(connection, [(WRITE, _RESPONSE % status + b'{"reserved": 1}\r\n')])
    free.append(connection)
