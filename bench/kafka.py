"""Capture here, decode there: a million chunks through Kafka, by consumers that are killed."""

import resource
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from bench.rows import Row
from bench.sniffer import ENVIRONMENT, SSLSNIFF
from tests.workload.packets import interleaved, write_capture

if TYPE_CHECKING:
    from tests.workload.kafka.broker import Broker

_CONNECTIONS, _EXCHANGES = 2000, 250
_CHUNKS = 2 * _CONNECTIONS * _EXCHANGES
_PARTITIONS = 8
_KILLED_AFTER_S = (12.5, 25.2)
_LEAST_SOONER = 1.7
_PATIENCE_S = 600.0


def measure() -> Iterator[Row]:
    """Write plaintext to a topic once; read it by one consumer, two, and some that are killed."""
    from tests.workload.kafka.broker import running_broker  # with librdkafka: see bench/tables.py
    from tests.workload.kafka.consumers import consumers, exchanges_in

    what = f"{_CHUNKS:,} chunks of {_CONNECTIONS:,} connections through Kafka"
    with tempfile.TemporaryDirectory(prefix="sslsniff-bench-") as name, running_broker() as broker:
        capture, here, outputs = Path(name, "c.pcap"), Path(name, "here.jsonl"), Path(name, "out")
        write_capture(capture, interleaved(_CONNECTIONS, _EXCHANGES))
        broker.create_topic("plaintext", _PARTITIONS)
        read: list[str | Path] = [SSLSNIFF, "read", capture]
        topic = ("--kafka", broker.address, "--topic", "plaintext", "--raw", "--no-redact")
        sent_s = _cpu_s([*read, *topic])
        written_s = _cpu_s([*read, "--pcap", Path(name, "c.pcapng")])
        cost_us = (sent_s - written_s) / _CHUNKS * 1e6
        yield Row(f"{what}: CPU more than for --pcap", cost_us, "us", None, "a chunk")

        one_s, two_s = (_elapsed_s(broker, Path(name), count) for count in (1, 2))
        note = f"{two_s:.0f} s, one {one_s:.0f} s"
        yield Row(
            f"{what}: two consumers sooner", one_s / two_s, "times", note=note, least=_LEAST_SOONER
        )

        outputs.mkdir()
        with consumers([SSLSNIFF], broker, "plaintext", outputs) as running:
            began_s = time.monotonic()
            running.start()
            running.start()
            for after_s in _KILLED_AFTER_S:
                time.sleep(began_s + after_s - time.monotonic())
                running.kill_one()
                running.start()
            running.wait(_PATIENCE_S)
            found = running.found()
        subprocess.run([*read, "--json", "-o", here], env=ENVIRONMENT, check=True)
        wanted = exchanges_in(here).exchanges
        wrong = (wanted - found.exchanges).total() + (found.exchanges - wanted).total()
        note = f"of {wanted.total():,}; {found.repeated:,} lines came twice, with the same place"
        yield Row(f"{what}, two consumers killed: exchanges that differ", wrong, "", 0, note)


def _elapsed_s(broker: "Broker", folder: Path, count: int) -> float:
    """Return how long so many consumers take for all of the topic."""
    command: list[str | Path] = [SSLSNIFF, "decode", "--kafka", broker.address]
    command += ["--topic", "plaintext", "--group", f"of-{count}", "--until-end", "--json", "-o"]
    began_s = time.monotonic()
    processes = [
        subprocess.Popen([*command, folder / f"{count}-{number}.jsonl"], env=ENVIRONMENT)
        for number in range(count)
    ]
    for process in processes:
        if process.wait(_PATIENCE_S):
            raise RuntimeError(f"sslsniff decode ended with {process.returncode}")
    return time.monotonic() - began_s


def _cpu_s(command: list[str | Path]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=ENVIRONMENT, check=True, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
