"""Under each exchange the calls that served it, and none of another's: C, Go, Rust with tokio."""

import asyncio
import json
import os
import re
import signal
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.live.checks import Sniff
from tests.live.sniffer import SSLSNIFF, Captured
from tests.live.test_terminal import showing, wait_for
from tests.workload.curl import Request, curl
from tests.workload.go.fixtures import BEFORE, NEWEST
from tests.workload.go.fixtures import Fixture as GoFixture
from tests.workload.processes import PATIENCE_S, PROGRAMS, next_line
from tests.workload.rust.fixtures import Fixture as RustFixture
from tests.workload.servers import Certificate, Server, built_server

AT_ONCE = 50
REQUESTS = 2
"""Of each connection, one after the other."""


class Orders(NamedTuple):
    """A server of orders: the pattern of its functions, and what a request for order N calls."""

    program: Callable[[Path], Path]
    pattern: str
    calls: Callable[[int], list[tuple[str, int]]]
    task: str | None
    """The field of a call that says which task it was."""


def built_c(folder: Path) -> Path:
    program = folder / "orders"
    source = PROGRAMS / "c/orders.c"
    command = ["gcc", "-O2", "-g", str(source), "-o", str(program), "-lssl", "-lcrypto"]
    subprocess.run(command, check=True)
    return program


def calls_in_c(number: int) -> list[tuple[str, int]]:
    prices = [("price", number)] * 3
    return [("find_order", number), *prices, ("answer", 2 * 3 * number)]


def calls_in_go(number: int) -> list[tuple[str, int]]:
    return [("main.findOrder", number), *[("main.price", number)] * 3]


def calls_in_rust(number: int) -> list[tuple[str, int]]:
    return [("orders::find_order", number), *[("orders::price", number)] * 3]


C = Orders(built_c, "^(find_order|price|answer)$", calls_in_c, None)
GO = Orders(
    lambda _: GoFixture("orders", NEWEST, "plain").path,
    r"^main\.(findOrder|price)$",
    calls_in_go,
    "goroutine",
)
OLD_GO = GO._replace(program=lambda _: GoFixture("orders", BEFORE, "plain").path)
RUST = Orders(
    lambda _: RustFixture("orders", "rustls-0-23-ring", "debug-info").path,
    "^orders::(find_order|price)$",
    calls_in_rust,
    "task",
)
SERVERS = {"c": C, "go": GO, "go-1.16": OLD_GO, "rust": RUST}


async def _ask(server: Server, trusted: Path, first: int) -> None:
    """Make requests on one connection, one after the other, for orders from ``first`` on."""
    context = ssl.create_default_context(cafile=str(trusted))
    context.set_alpn_protocols(["http/1.1"])
    reader, writer = await asyncio.open_connection("localhost", server.port, ssl=context)
    for number in range(first, first + REQUESTS):
        request = f"GET /orders/{number} HTTP/1.1\r\nHost: localhost\r\n\r\n"
        writer.write(request.encode())
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        [size] = [line for line in head.split(b"\r\n") if line.startswith(b"content-length:")]
        await reader.readexactly(int(size.partition(b":")[2]))
    writer.close()
    await writer.wait_closed()


async def _ask_at_once(server: Server, trusted: Path) -> None:
    asked = (_ask(server, trusted, REQUESTS * number) for number in range(AT_ONCE))
    await asyncio.gather(*asked)


def number_of(exchange: dict[str, Any]) -> int:
    return int(exchange["request"]["target"].rpartition("/")[2])


def named(calls: list[dict[str, Any]]) -> list[tuple[str, int]]:
    """Return function and number of each call."""
    return [(each["function"], each["args"]["number"]) for each in calls]


@pytest.mark.heavy
@pytest.mark.parametrize("name", SERVERS)
def test_each_exchange_lists_its_own_calls(
    name: str, certificate: Certificate, tmp_path: Path, sniff: Sniff
) -> None:
    orders = SERVERS[name]
    with (
        built_server(orders.program(tmp_path), certificate) as server,
        sniff("--pid", str(server.pid), "--calls", orders.pattern) as sniffer,
    ):
        asyncio.run(_ask_at_once(server, certificate.certificate))
        sniffer.until(AT_ONCE * REQUESTS)
        captured = sniffer.stop()
    exchanges = captured.exchanges
    assert sorted(map(number_of, exchanges)) == list(range(AT_ONCE * REQUESTS))
    threads = set()
    for exchange in exchanges:
        calls = exchange["calls"]
        assert named(calls) == orders.calls(number_of(exchange)), exchange
        assert all(each["duration_ns"] > 0 for each in calls)
        assert {each["pid"] for each in calls} == {server.pid}
        assert len({each.get(orders.task) for each in calls}) == 1
        assert (calls[0].get(orders.task or "tid") or 0) > 0
        threads.add(len({each["tid"] for each in calls}))
    # Where they have tasks, some handlers went on on other threads.
    assert (max(threads) > 1) == (orders.task is not None)
    assert _figures(captured) == (_count(orders), _count(orders))


def _count(orders: Orders) -> int:
    return sum(len(orders.calls(number)) for number in range(AT_ONCE * REQUESTS))


def _figures(captured: Captured) -> tuple[int, int]:
    """Return how many calls there were, and how many were shown."""
    [line] = [each for each in captured.stderr.splitlines() if " shown under the exchange" in each]
    words = line.split()
    return int(words[1]), int(words[3])


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["go", "rust"])
def test_streams_of_http2_have_none(
    name: str, certificate: Certificate, tmp_path: Path, sniff: Sniff
) -> None:
    orders = SERVERS[name]
    asked = [Request(f"/orders/{number}") for number in range(10)]
    with (
        built_server(orders.program(tmp_path), certificate) as server,
        sniff("--pid", str(server.pid), "--calls", orders.pattern) as sniffer,
    ):
        command = curl(server.url, asked, certificate, tmp_path, "--http2", "--parallel")
        subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=PATIENCE_S)
        sniffer.until(len(asked))
        captured = sniffer.stop()
    assert {each["protocol"] for each in captured.exchanges} == {"http/2"}
    assert [each["calls"] for each in captured.exchanges] == [None] * len(asked)
    assert _figures(captured) == (4 * len(asked), 0)
    assert "40 served none, or it is not known which" in captured.stderr


def test_text_and_trace_file(certificate: Certificate, tmp_path: Path) -> None:
    """Calls are indented by their depth, and are slices inside of the exchange's."""
    trace = tmp_path / "trace.json"
    with built_server(C.program(tmp_path), certificate) as server:
        options = ("--pid", str(server.pid), "--calls", C.pattern, "--print")
        with showing(tmp_path, *options, "--chrome-trace", str(trace)) as (shown, lines, errors):
            asyncio.run(_ask(server, certificate.certificate, 7))
            wait_for(lines, "number=48")
            shown.send_signal(signal.SIGINT)
            shown.wait(PATIENCE_S)
    assert "Traceback" not in errors.read_text("utf-8")
    text = [_without_times(line) for line in lines.read_text("utf-8").splitlines()]
    assert text[1:6] == [
        "    find_order(number=7) = 7",
        "      price(number=7) = 21",
        "    price(number=7) = 21",
        "    price(number=7) = 21",
        "    answer(ssl=?, number=42) = 40",
    ]
    slices = [each for each in json.loads(trace.read_text("utf-8")) if each["ph"] == "X"]
    assert [each["name"] for each in slices] == [
        *["GET /orders/7", "find_order", *["price"] * 3, "answer"],
        *["GET /orders/8", "find_order", *["price"] * 3, "answer"],
    ]
    assert len({(each["pid"], each["tid"]) for each in slices}) == 1
    for first in (0, 6):
        exchange, *calls = slices[first : first + 6]
        end = exchange["ts"] + exchange["dur"]
        assert all(exchange["ts"] <= each["ts"] for each in calls)
        assert all(each["ts"] + each["dur"] <= end + 0.001 for each in calls)


def _without_times(line: str) -> str:
    """Return a line of text without the durations and addresses in it."""
    return re.sub(r"  [0-9.]+ [mun]?s$", "", re.sub(r"0x[0-9a-f]+", "?", line))


def test_a_command(certificate: Certificate, tmp_path: Path) -> None:
    """Functions of a program are probed before it starts."""
    output = tmp_path / "calls.jsonl"
    command: list[str | Path] = [SSLSNIFF, "--calls", "^price$", "--json", "-o", output, "--"]
    command += [C.program(tmp_path), certificate.certificate, certificate.key]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as sniffer:
        server = Server(sniffer.pid, int(next_line(sniffer)))
        asyncio.run(_ask(server, certificate.certificate, 1))
        captured = wait_for(output, r"/orders/2.*\n").splitlines()
        exchanges = [each for each in map(json.loads, captured) if each["type"] == "exchange"]
        os.kill(exchanges[0]["pid"], signal.SIGTERM)
        assert sniffer.wait(PATIENCE_S) == 128 + signal.SIGTERM
    calls = [named(each["calls"]) for each in exchanges]
    assert calls == [[("price", 1)] * 3, [("price", 2)] * 3]


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("^find_ordre$", "matches ^find_ordre$: did you mean find_order?"),
        ("nothing_like_this", "matches nothing_like_this: see sslsniff symbols"),
    ],
)
def test_no_such_function(
    pattern: str, message: str, certificate: Certificate, tmp_path: Path
) -> None:
    with built_server(C.program(tmp_path), certificate) as server:
        command = [str(SSLSNIFF), "--pid", str(server.pid), "--calls", pattern]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert ended.returncode == 1
    assert message in ended.stderr


@pytest.mark.heavy
def test_tasks_that_cannot_be_told_apart(certificate: Certificate, tmp_path: Path) -> None:
    """A program with tokio, and without the debug info that says where a task's number is."""
    program = RustFixture("server", "rustls-0-23-ring", "release").path
    with built_server(program, certificate) as server:
        command = [str(SSLSNIFF), "--pid", str(server.pid), "--calls", "^server::"]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert ended.returncode == 1
    assert "has tokio, whose tasks change threads, and no debug info" in ended.stderr
    assert "build it with debug = 2, not stripped" in ended.stderr
