"""Programs that switch coroutines inside of TLS calls: they live, and no bytes are mixed up."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from sslsniff.kernel import procfs
from tests.live.checks import Sniff, assert_whole, content, run_under
from tests.live.sniffer import READY, Captured, Sniffer, without_waiting
from tests.live.watching import Watch
from tests.workload.processes import PATIENCE_S, PROGRAMS, loading, next_line, run, say, started
from tests.workload.servers import Certificate

REQUESTS = 20


class Coroutines(NamedTuple):
    """tests/workload/c/coroutines.c, and a server of it that runs on two threads."""

    program: Path
    server: "subprocess.Popen[str]"
    port: str
    library: Path

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, **loading(self.library)}

    def command(self, connections: int, threads: int, how: str = "") -> list[str]:
        numbers = (self.port, connections, REQUESTS, threads)
        return [str(self.program), "ask", *map(str, numbers), how]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("coroutines") / "coroutines"
    options = ("-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o", built)
    sources = (PROGRAMS / "c/coroutines.c", PROGRAMS / "c/scheduler.c")
    run("gcc", *options, *sources, "-lssl", "-lcrypto")
    return built


@pytest.fixture
def coroutines(program: Path, certificate: Certificate, own_library: Path) -> Iterator[Coroutines]:
    environment = {**os.environ, **loading(own_library)}
    command = (program, "serve", certificate.certificate, certificate.key, "2")
    with started(*command, env=environment) as server:
        yield Coroutines(program, server, next_line(server), own_library)
        server.communicate(timeout=PATIENCE_S)
        assert server.returncode == 0


class Asking:
    """A client whose connections are, and that waits for its word to make requests."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.ports: list[int] = []
        while (line := next_line(process)) != "ready":
            assert line, "the client ended"
            self.ports.append(int(line))

    def go(self) -> int:
        """Let it make its requests; return how many answers were right. It must end well."""
        say(self.process, "go")
        right, _ = self.process.communicate(timeout=4 * PATIENCE_S)
        assert self.process.returncode == 0
        return int(right)


def asking(coroutines: Coroutines, connections: int, threads: int, how: str = "") -> Any:
    return started(*coroutines.command(connections, threads, how), env=coroutines.environment)


def watched(
    coroutines: Coroutines, watch: Watch, connections: int, threads: int, how: str = ""
) -> AbstractContextManager[Sniffer]:
    command = coroutines.command(connections, threads, how)
    return watch.json(*command, **loading(coroutines.library))


def assert_seen(captured: Captured, ports: list[int]) -> None:
    """Each request and its answer is there once, with the address of its own connection."""
    seen = []
    for exchange in captured.exchanges:
        request, response = exchange["request"], exchange["response"]
        port, number = map(int, request["target"].split("/")[1:])
        assert exchange["error"] is None
        assert exchange["client"] == {"ip": "127.0.0.1", "port": port}
        body = bytes(ord("a") + (port + number + i) % 26 for i in range(100 + number * 37))
        assert content(response["body"]) == body
        seen.append((port, number))
    assert sorted(seen) == sorted((port, number) for port in ports for number in range(REQUESTS))
    assert_whole(captured)


def assert_silent(captured: Captured) -> None:
    """Nothing is said but what is watched, and by a preloaded library nothing at all."""
    assert captured.code == 0
    lines = without_waiting(captured.stderr).splitlines()
    assert [each for each in lines if not each.startswith(READY)] == []


@pytest.mark.heavy
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("connections", [1, 16, 1000])
@pytest.mark.reliability("load", "1,000 coroutines on two threads, all inside of TLS calls")
def test_every_exchange(
    connections: int, threads: int, coroutines: Coroutines, watch: Watch
) -> None:
    """The server, which is not watched, has as many coroutines in the same library."""
    with watched(coroutines, watch, connections, threads) as sniffer:
        client = Asking(sniffer.process)
        right = client.go()
        captured = sniffer.wait()
    assert right == connections * REQUESTS
    assert_seen(captured, client.ports)
    assert_silent(captured)


@pytest.mark.parametrize(
    "how",
    [
        pytest.param("x", id="SSL_read_ex and SSL_write_ex"),
        pytest.param("j", id="jumps out of calls"),
        pytest.param("l", id="receives outside of calls"),
        pytest.param("xjl", id="all of these"),
    ],
)
def test_ways(how: str, coroutines: Coroutines, watch: Watch) -> None:
    with watched(coroutines, watch, 16, 2, how) as sniffer:
        client = Asking(sniffer.process)
        right = client.go()
        captured = sniffer.wait()
    assert right == 16 * REQUESTS
    assert_seen(captured, client.ports)
    assert_silent(captured)


def test_dropped_coroutines(coroutines: Coroutines, watch: Watch) -> None:
    """As many coroutines again never return from a read."""
    with watched(coroutines, watch, 16, 2, "d") as sniffer:
        client = Asking(sniffer.process)
        right = client.go()
        captured = sniffer.wait()
    assert right == 16 * REQUESTS
    answered = [each for each in captured.exchanges if each["response"]]
    dropped = [each["request"]["target"] for each in captured.exchanges if not each["response"]]
    assert sorted(dropped) == sorted(set(dropped))
    assert len(dropped) == 16
    assert all(each.startswith("/-") for each in dropped)
    captured.objects = [each for each in captured.objects if each["type"] != "exchange"]
    captured.objects += answered
    captured.summary["exchanges"] -= len(dropped)
    assert_seen(captured, client.ports)


def test_beside_a_capture_of_another_process(coroutines: Coroutines, sniff: Sniff) -> None:
    """An unwatched program that maps the same library is hit by the same probes."""
    with asking(coroutines, 1, 1) as watched, asking(coroutines, 16, 2) as other:
        client, bystander = Asking(watched), Asking(other)
        with sniff("--pid", str(watched.pid)) as sniffer:
            assert bystander.go() == 16 * REQUESTS
            assert client.go() == REQUESTS
            captured = sniffer.wait()
    assert_seen(captured, client.ports)
    assert_silent(captured)


@pytest.mark.parametrize("count", [1, 16])
def test_calls_in_progress_are_counted(coroutines: Coroutines, sniff: Sniff, count: int) -> None:
    """The server waits in SSL_read when sslsniff comes: what these calls return is not known."""
    with asking(coroutines, count, min(count, 2)) as process:
        client = Asking(process)
        with sniff("--pid", str(coroutines.server.pid)) as sniffer:
            assert client.go() == count * REQUESTS
            sniffer.until(count * REQUESTS)
            captured = sniffer.stop()
    known = [each for each in captured.exchanges if each["request"]]
    assert len(captured.exchanges) - len(known) == count
    assert len(known) == count * (REQUESTS - 1)
    for exchange in captured.exchanges:
        assert exchange["client"]["port"] in client.ports
    what = "1 call was" if count == 1 else f"{count} calls were"
    [line] = [each for each in captured.stderr.splitlines() if "when the probes were" in each]
    assert line.startswith(f"sslsniff: {what} open when the probes were placed")
    pid = coroutines.server.pid
    assert f" ({count} of {procfs.thread_name(pid)}[{pid}]): one message of each is missing" in line


@pytest.mark.heavy
def test_jobs_of_openssl(coroutines: Coroutines, tmp_path: Path) -> None:
    """SSL_MODE_ASYNC: the library runs a call's inner part on a stack of its own.

    Its socket calls then belong to no call that is known, and no address is guessed.
    """
    request = "printf 'GET /1/2 HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n'; sleep 1"
    client = f"timeout 2 openssl s_client -async -quiet -connect 127.0.0.1:{coroutines.port}"
    ran = run_under(tmp_path, "sh", "-c", f"({request}) | {client} || true")
    [exchange] = ran.captured.exchanges
    assert exchange["response"]["body"]["size"] == 100 + 2 * 37
    for each in ran.captured.of("connection"):
        assert each["client"] is None or each["client"]["port"] > 0
    assert_whole(ran.captured)
