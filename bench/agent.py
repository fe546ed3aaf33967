"""``python -m bench.agent SECONDS``: the agent beside nginx, with OTLP and tables, for so long.

The figures go to ``agent.json``. Needs root; fails where a bar is missed.
"""

import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq

from bench import http_load, results
from bench.loads import own_folder
from bench.nginx import running_nginx
from bench.rows import Row
from bench.sniffer import ENVIRONMENT, SSLSNIFF
from tests.workload.otlp_agent import running_sink
from tests.workload.ports import free_port, wait_until_open

PATH = Path(__file__).with_name("agent.json")
_RATE = 1000
_CPU = 0.7
_MEMORY_MB = 400
_SAMPLES = 300
_MOST_GROWTH_MB = 0.5
_SETTLE_S = 15.0
_CONFIG = """
[watch]
pids = {pids}
[limits]
cpu = {cpu}
memory = "{memory}M"
[otlp]
url = "{otlp}"
[parquet]
folder = "{folder}/tables"
[health]
listen = "127.0.0.1:{port}"
"""


class _Sample(NamedTuple):
    """What the agent said of itself: CPU and memory of its capture, and what it counted."""

    at_s: float
    cpu_s: float
    memory_mb: float
    metrics: dict[str, float]


def measure(seconds: int) -> Iterator[Row]:
    """Ask nginx at a steady rate; the agent's figures are those that Prometheus gets."""
    with ExitStack() as ending:
        folder, certificate = ending.enter_context(own_folder())
        nginx = ending.enter_context(running_nginx(folder, certificate, "off"))
        otlp, port = ending.enter_context(running_sink()), free_port()
        config = folder / "agent.toml"
        config.write_text(
            _CONFIG.format(
                pids=nginx.pids, cpu=_CPU, memory=_MEMORY_MB, otlp=otlp, folder=folder, port=port
            )
        )
        agent = subprocess.Popen([SSLSNIFF, "agent", "--config", config], env=ENVIRONMENT)
        try:
            wait_until_open(port)
            while _sample(port).metrics.get("sslsniff_probes", 0) == 0:
                time.sleep(0.1)
            log = folder / "h2load.log"
            command = http_load.paced_command(nginx.url, "HTTP/1.1", _RATE, seconds, log)
            load = subprocess.Popen(command, stdout=subprocess.DEVNULL)
            samples = [*_samples(load, port, seconds / _SAMPLES)]
            time.sleep(_SETTLE_S)
            last = _sample(port)
        finally:
            agent.terminate()
            agent.wait()
        rows = sum(
            pq.read_metadata(file).num_rows for file in (folder / "tables").glob("*/*/*.parquet")
        )
    what = f"agent, {seconds:,} s of {_RATE:,} exchanges/s, OTLP and tables"
    asked = _RATE * seconds
    seen = int(last.metrics["sslsniff_exchanges_total"])
    yield Row(f"{what}: exchanges not seen", asked - seen, "", 0, f"of {asked:,}")
    yield Row(f"{what}: not in the tables", seen - rows, "", 0)
    delivered = sum(v for n, v in last.metrics.items() if n.startswith("sslsniff_delivered_total"))
    yield Row(f"{what}: spans not delivered", seen - int(delivered), "", 0)
    lost = sum(v for n, v in last.metrics.items() if n.startswith("sslsniff_lost_bytes_total"))
    yield Row(f"{what}: bytes lost", int(lost), "bytes", 0)
    first, end = samples[0], samples[-1]
    share = (end.cpu_s - first.cpu_s) / (end.at_s - first.at_s)
    yield Row(f"{what}: CPU", 100 * share, "% of a processor", 100 * _CPU)
    course = tuple((each.at_s - first.at_s, each.memory_mb) for each in samples)
    most_mb = max(each.memory_mb for each in samples)
    yield Row(f"{what}: most memory", most_mb, "MB", _MEMORY_MB, course=course)
    quarter = len(samples) // 4
    third_mb, last_mb = (
        statistics.median(each.memory_mb for each in part)
        for part in (samples[-2 * quarter : -quarter], samples[-quarter:])
    )
    note = f"medians, from {third_mb:.1f} to {last_mb:.1f} MB"
    growth_mb = last_mb - third_mb
    yield Row(f"{what}: grown between the last quarters", growth_mb, "MB", _MOST_GROWTH_MB, note)


def _samples(load: "subprocess.Popen[bytes]", port: int, pause_s: float) -> Iterator[_Sample]:
    while load.poll() is None:
        yield _sample(port)
        time.sleep(pause_s)
    if load.returncode:
        raise RuntimeError(f"h2load ended with {load.returncode}")


def _sample(port: int) -> _Sample:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    parts = [line.rpartition(" ") for line in lines if not line.startswith("#")]
    metrics = {name: float(value) for name, _, value in parts}
    cpu_s = metrics.get("sslsniff_cpu_seconds_total", 0)
    return _Sample(time.monotonic(), cpu_s, metrics.get("sslsniff_memory_bytes", 0) / 1e6, metrics)


def main() -> int:
    return results.save_alone("agent", [*measure(int(sys.argv[1]))], PATH)


if __name__ == "__main__":
    sys.exit(main())
