"""A process that uses no TLS library, one that does, and one that ends: sslsniff says which."""

import sys

from tests.live.checks import Sniff
from tests.live.sniffer import READY
from tests.workload.processes import next_line, started

WITHOUT = "no TLS library that sslsniff knows is in use by"
TLS = "import ssl; print(flush=True); input()"


def test_a_process_without_tls(bystander: str, sniff: Sniff) -> None:
    with sniff("--pid", bystander) as sniffer:
        sniffer.stop()
    [line] = sniffer.errors.read_text().splitlines()
    assert line.startswith(READY)
    assert line.endswith(f"; {WITHOUT} sleep[{bystander}] yet; Ctrl-C ends")


def test_a_process_with_tls(sniff: Sniff) -> None:
    with started(sys.executable, "-c", TLS) as process:
        next_line(process)
        with sniff("--pid", str(process.pid)) as sniffer:
            sniffer.stop()
        assert WITHOUT not in sniffer.errors.read_text()


def test_a_process_that_ends(sniff: Sniff) -> None:
    with started("sleep", "60") as process, sniff("--pid", str(process.pid)) as sniffer:
        process.kill()
        process.wait()
        assert sniffer.wait().code == 0
    assert f"sslsniff: process {process.pid} ended\n" in sniffer.errors.read_text()
