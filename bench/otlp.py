"""What an OpenTelemetry agent passes on of 100,000 exchanges, and what a span costs."""

import os
import re
import resource
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from bench.rows import Row
from bench.sniffer import ENVIRONMENT, SSLSNIFF
from tests.workload.packets import small_exchanges, write_capture

_EXCHANGES = 100_000
_STOPPED_S = 30.0
_STOPPED_AFTER_S = 2.0
_PATIENCE_S = 60.0
_SAID = re.compile(r"([\d,]+) delivered, ([\d,]+) dropped")


def measure() -> Iterator[Row]:
    """Read a capture, and send its exchanges by each protocol; the agent stops for a while."""
    from tests.workload.otlp_agent import running_agent  # with gRPC: see bench/tables.py

    with tempfile.TemporaryDirectory(prefix="sslsniff-bench-") as name:
        capture = Path(name, "c.pcap")
        write_capture(capture, small_exchanges(_EXCHANGES))
        alone_s, _ = _cpu(capture, "--redact", "--json", "-o", f"{name}/lines.jsonl")
        for protocol, stopped_s in (
            ("grpc", 0.0),
            ("grpc", _STOPPED_S),
            ("http/protobuf", _STOPPED_S),
        ):
            what = f"{_EXCHANGES:,} exchanges by OTLP over {protocol}"
            if stopped_s:
                what += f", the agent stopped for {stopped_s:.0f} s"
            with running_agent() as agent:
                stop = threading.Timer(_STOPPED_AFTER_S, _pause, (agent.process.pid, stopped_s))
                stop.start()
                url = agent.urls[protocol]
                spent_s, said = _cpu(capture, "--otlp", url, "--otlp-protocol", protocol)
                stop.join()
                delivered, dropped = _figures(said)
                until_s = time.monotonic() + _PATIENCE_S
                while agent.received.count < delivered and time.monotonic() < until_s:
                    time.sleep(0.1)
                missing = _EXCHANGES - agent.received.count - dropped
            note = f"{delivered:,} delivered, {dropped:,} dropped"
            yield Row(f"{what}: neither there nor counted", missing, "", 0, note)
            if not stopped_s:
                cost_us = (spent_s - alone_s) / _EXCHANGES * 1e6
                yield Row(f"{what}: CPU more than for JSON", cost_us, "us", None, "a span")


def _pause(pid: int, seconds: float) -> None:
    if seconds:
        os.kill(pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(pid, signal.SIGCONT)


def _cpu(capture: Path, *options: str) -> tuple[float, str]:
    """Read the capture; return the CPU seconds, and the last line that was said."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [SSLSNIFF, "read", capture, *options],
        env=ENVIRONMENT,
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent_s, done.stderr.splitlines()[-1].removeprefix("sslsniff: ")


def _figures(said: str) -> tuple[int, int]:
    found = _SAID.search(said)
    if found is None:
        raise RuntimeError(said)
    delivered, dropped = (int(each.replace(",", "")) for each in found.groups())
    return delivered, dropped
