"""What an agent costs at 1,000 exchanges a second, for each output: CPU, memory, bytes out."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple

from bench.http_load import paced
from bench.loads import own_folder
from bench.nginx import running_nginx
from bench.rows import Row
from bench.sniffer import Running, cpu_s

RATE = 1_000
_SECONDS = 20
_PATIENCE_S = 60


class Output(NamedTuple):
    """Where exchanges go: the options for it, and how many bytes came there.

    ``receiver``: the process that takes them, None if it is a file.
    """

    options: list[str | Path]
    received: Callable[[], int]
    receiver: int | None = None


def measure() -> Iterator[Row]:
    """Ask nginx at a steady rate, with one output after the other."""
    with own_folder() as (folder, certificate), running_nginx(folder, certificate) as nginx:
        pids = [part for pid in nginx.pids for part in ("--pid", str(pid))]
        for name, opened in _OUTPUTS.items():
            with opened() as output:
                sniffer = Running(*output.options, *pids)
                before_s = sniffer.cpu_s()
                taken_before_s = cpu_s(output.receiver) if output.receiver else 0
                served = paced(nginx.url, "HTTP/1.1", RATE, _SECONDS)
                spent_s = sniffer.cpu_s() - before_s
                memory_mb = sniffer.memory_mb("VmHWM")
                sniffer.stop()
                taken_s = cpu_s(output.receiver) - taken_before_s if output.receiver else 0
                each_bytes = output.received() / served.responses
            what = f"{RATE:,} exchanges/s, {name}"
            share = 100 * spent_s / served.responses * RATE
            note = f"{memory_mb:.0f} MB of memory"
            yield Row(f"{what}: CPU", share, "% of a processor", None, note)
            yield Row(f"{what}: out", each_bytes, "bytes an exchange")
            if output.receiver:
                share = 100 * taken_s / served.responses * RATE
                yield Row(f"{what}: CPU of the receiver", share, "% of a processor")


@contextmanager
def _file(option: str, name: str, *more: str) -> Iterator[Output]:
    with tempfile.TemporaryDirectory(prefix="sslsniff-bench-") as folder:
        path = Path(folder, name)
        yield Output([option, path, *more], lambda: _size(path))


def _size(path: Path) -> int:
    files = [path] if path.is_file() else path.rglob("*")
    return sum(file.stat().st_size for file in files if file.is_file())


@contextmanager
def _otlp() -> Iterator[Output]:
    from tests.workload.otlp_agent import running_agent  # with gRPC: see bench/tables.py

    with running_agent() as agent:
        options: list[str | Path] = ["--otlp", agent.urls["grpc"], "--otlp-protocol", "grpc"]

        def received() -> int:
            agent.received.wait_for(RATE * _SECONDS, _PATIENCE_S)
            return sum(each.ByteSize() for each in agent.received.traces)

        yield Output(options, received, agent.process.pid)


@contextmanager
def _kafka(*more: str) -> Iterator[Output]:
    from tests.workload.kafka.broker import running_broker

    with running_broker() as broker:
        broker.create_topic("out", 8)
        options: list[str | Path] = ["--kafka", broker.address, "--topic", "out", *more]
        yield Output(options, lambda: broker.topic_bytes("out"), broker.process.pid)


_OUTPUTS: dict[str, Callable[[], AbstractContextManager[Output]]] = {
    "JSON lines": lambda: _file("--output", "lines.jsonl", "--json"),
    "pcapng": lambda: _file("--pcap", "c.pcapng"),
    "tables": lambda: _file("--parquet", "tables"),
    "tables, redacted": lambda: _file("--parquet", "tables", "--redact"),
    "OTLP": _otlp,
    "Kafka, JSON": _kafka,
    "Kafka, Protobuf": lambda: _kafka("--kafka-format", "protobuf"),
    "Kafka, plaintext": lambda: _kafka("--raw"),
    "Kafka, plaintext as it is": lambda: _kafka("--raw", "--no-redact"),
}
