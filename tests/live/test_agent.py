"""The agent, as a service manager and Prometheus see it."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest

from tests.live.running import requests
from tests.live.sniffer import SSLSNIFF
from tests.workload.curl import curl
from tests.workload.ports import free_port
from tests.workload.processes import PATIENCE_S, run
from tests.workload.servers import Certificate, Server

DISK_CHECK_S = 10
UNIT = Path(__file__).parents[2] / "docs" / "service" / "sslsniff.service"


_HEARS_HANGUPS = ("env", "--default-signal=HUP")
"""As a service manager starts it, also where nohup runs the tests."""


class Agent:
    """A running agent; ``notices``: to the service manager. ``before``: runs it."""

    def __init__(self, folder: Path, config: str, *before: str) -> None:
        self.config = folder / "agent.toml"
        self.config.write_text(config)
        self.port = free_port()
        self.notices: list[str] = []
        self.said = folder / "said"
        self.lines = folder / "lines.jsonl"
        self._manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._manager.bind(str(folder / "notify"))
        self._manager.setblocking(False)
        with self.said.open("wb") as errors, self.lines.open("wb") as lines:
            self.process = subprocess.Popen(
                [*before, *_HEARS_HANGUPS, SSLSNIFF, "agent", "--config", self.config],
                stdout=lines,
                stderr=errors,
                env={**os.environ, "NOTIFY_SOCKET": str(folder / "notify")},
            )

    def receive(self) -> list[str]:
        """Return all notices so far."""
        with contextlib.suppress(BlockingIOError):
            while True:
                self.notices.append(self._manager.recv(4096).decode())
        return self.notices

    def wait_until(self, is_so: Callable[[], object]) -> None:
        """Wait until something is true."""
        until_s = time.monotonic() + PATIENCE_S
        while not is_so():
            assert self.process.poll() is None, self.said.read_text()
            assert time.monotonic() < until_s, self.said.read_text()
            time.sleep(0.05)

    def until_ready(self, times: int = 1) -> None:
        """Wait until it has said so many times that it is ready."""
        self.wait_until(lambda: sum(each.startswith("READY=1") for each in self.receive()) >= times)

    def end(self) -> int:
        """End it; return its exit code."""
        self.process.terminate()
        try:
            return self.process.wait(PATIENCE_S)
        finally:
            self.process.kill()
            self._manager.close()


@pytest.fixture
def port() -> int:
    return free_port()


def configured(server: Server, folder: Path, port: int, more: str = "") -> str:
    return f"""
[watch]
pids = [{server.pid}]

[parquet]
folder = "{folder}/tables"
seconds = 1

[lines]
json = true

[health]
listen = "127.0.0.1:{port}"
{more}"""


@pytest.fixture
def agent(server: Server, tmp_path: Path, port: int) -> Iterator[Agent]:
    started = Agent(tmp_path, configured(server, tmp_path, port))
    try:
        started.until_ready()
        yield started
    finally:
        assert started.end() == 0, started.said.read_text()


def exposed(port: int) -> str:
    """Return the metrics as Prometheus gets them."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text: str = answer.read().decode()
    return text


def metrics(port: int) -> dict[str, float]:
    """Return the metrics by their names, with labels."""
    text = exposed(port)
    lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in lines}


def ask(server: Server, certificate: Certificate, folder: Path, count: int) -> None:
    asked = requests(count)
    folder.mkdir()
    run(*curl(server.url, asked, certificate, folder, "--http1.1"))


def rows(tables: Path) -> int:
    """Return how many rows the agent's tables have by now."""
    files = [str(each) for each in tables.glob("*/*/*.parquet")]
    return sum(duckdb.read_parquet(each).shape[0] for each in files)


@pytest.mark.heavy
def test_a_service(
    agent: Agent, port: int, server: Server, certificate: Certificate, tmp_path: Path
) -> None:
    ask(server, certificate, tmp_path / "a", 53)
    agent.wait_until(lambda: metrics(port)["sslsniff_exchanges_total"] == 53)
    check = ["promtool", "check", "metrics"]  # Prometheus's own
    subprocess.run(check, input=exposed(port), text=True, check=True)
    found = metrics(port)
    assert found["sslsniff_up"] == 1
    assert found["sslsniff_connections_total"] == 1
    assert found["sslsniff_kept_share"] == 1
    assert found["sslsniff_probes"] > 5
    assert found["sslsniff_ring_bytes"] == 32 << 20
    assert 10e6 < found["sslsniff_memory_bytes"] < 500e6
    assert not any(name.startswith("sslsniff_lost") for name in found if found[name])
    agent.wait_until(lambda: any("53 exchanges of 1 conn" in each for each in agent.receive()))
    assert any(each.startswith("WATCHDOG=1\n") for each in agent.receive())
    agent.wait_until(lambda: rows(tmp_path / "tables") >= 53)  # perhaps in two files
    assert rows(tmp_path / "tables") == 53
    lines = [json.loads(line) for line in agent.lines.read_text().splitlines()]
    assert sum(line["type"] == "exchange" for line in lines) == 53


def test_reload(
    agent: Agent, port: int, server: Server, certificate: Certificate, tmp_path: Path
) -> None:
    """A wrong file changes nothing; a right one takes effect, and nothing that was seen is lost."""
    ask(server, certificate, tmp_path / "a", 20)
    good = agent.config.read_text()
    agent.config.write_text(good.replace("seconds = 1", "second = 1"))
    agent.process.send_signal(signal.SIGHUP)
    agent.until_ready(2)
    assert re.search(
        r"line 7: unknown setting parquet.second: did you mean seconds\?; the capture goes on as",
        agent.said.read_text(),
    )
    agent.wait_until(lambda: metrics(port)["sslsniff_exchanges_total"] == 20)
    agent.config.write_text(good.replace("[lines]", "[redact]\npatterns = ['bytes']\n[lines]"))
    agent.process.send_signal(signal.SIGHUP)
    agent.until_ready(3)
    assert any(each.startswith("RELOADING=1\n") for each in agent.notices)
    ask(server, certificate, tmp_path / "b", 20)
    agent.wait_until(lambda: metrics(port).get("sslsniff_exchanges_total") == 20)
    assert metrics(port)['sslsniff_restarts_total{reason="reload"}'] == 1
    lines = [json.loads(line) for line in agent.lines.read_text().splitlines()]
    urls = [line["request"]["url"] for line in lines if line["type"] == "exchange"]
    assert len(urls) == 40
    assert any("/bytes/" in url for url in urls[:20])
    assert not any("/bytes/" in url for url in urls[20:])


@pytest.mark.heavy
def test_with_the_rights_of_the_unit(
    server: Server, certificate: Certificate, tmp_path: Path, port: int
) -> None:
    [line] = re.findall(r"^CapabilityBoundingSet=(.*)$", UNIT.read_text(), re.MULTILINE)
    names = [name.removeprefix("CAP_").lower() for name in line.split()]
    rights = ("--bounding-set=-all," + ",".join(f"+{name}" for name in names), "--inh-caps=-all")
    text = configured(server, tmp_path, port)
    agent = Agent(tmp_path, text, "setpriv", *rights, "--no-new-privs")
    try:
        agent.until_ready()
        ask(server, certificate, tmp_path / "a", 20)
        agent.wait_until(lambda: metrics(port)["sslsniff_exchanges_total"] == 20)
        agent.process.send_signal(signal.SIGHUP)
        agent.until_ready(2)
    finally:
        assert agent.end() == 0


def test_the_limit_of_memory(server: Server, tmp_path: Path, port: int) -> None:
    text = configured(server, tmp_path, port, "[limits]\nmemory = '1M'\n")
    agent = Agent(tmp_path, text)
    try:
        agent.until_ready(2)
        assert "more than limits.memory: the capture begins anew" in agent.said.read_text()
        agent.wait_until(lambda: metrics(port)['sslsniff_restarts_total{reason="memory"}'] >= 1)
    finally:
        assert agent.end() == 0


def test_a_capture_that_ends_by_itself(server: Server, tmp_path: Path, port: int) -> None:
    """The service manager starts the agent again; so it ends with an error."""
    text = configured(server, tmp_path, port).replace(f"[{server.pid}]", "[4194303]")
    agent = Agent(tmp_path, text)
    assert agent.process.wait(PATIENCE_S) == 1
    assert "the capture ended by itself, with 1" in agent.said.read_text()
    agent.end()


def test_a_port_that_is_taken(server: Server, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        agent = Agent(tmp_path, configured(server, tmp_path, port))
        assert agent.process.wait(PATIENCE_S) == 1
    said = f"sslsniff: cannot listen on 127.0.0.1:{port}: Address already in use: set another"
    assert agent.said.read_text().startswith(said)
    agent.end()


@pytest.mark.heavy
def test_the_limit_of_disk_goes_with_its_line(
    server: Server, certificate: Certificate, tmp_path: Path, port: int
) -> None:
    text = configured(server, tmp_path, port, "[limits]\ndisk = '1K'\n")
    agent = Agent(tmp_path, text)
    tables = tmp_path / "tables"
    try:
        agent.until_ready()
        ask(server, certificate, tmp_path / "a", 20)
        agent.wait_until(lambda: "tables: the oldest removed" in agent.said.read_text())
        assert not [*tables.glob("*/*/*.parquet")]
        agent.config.write_text(configured(server, tmp_path, port))
        agent.process.send_signal(signal.SIGHUP)
        agent.until_ready(2)
        ask(server, certificate, tmp_path / "b", 20)
        agent.wait_until(lambda: [*tables.glob("*/*/*.parquet")])
        time.sleep(DISK_CHECK_S + 1)
        assert [*tables.glob("*/*/*.parquet")]
    finally:
        assert agent.end() == 0
