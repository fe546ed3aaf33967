"""kill -9 under load, at random moments: the capture is whole to the last packet written."""

import os
import random
import signal
import time
from pathlib import Path

import pytest

from sslsniff.kernel import procfs
from tests.live.refusals import sniff
from tests.live.watching import Watch
from tests.unit.captures import wait_ended
from tests.unit.outputs.pcap.test_pcap_killed import judged
from tests.workload.load import Load
from tests.workload.processes import PATIENCE_S
from tests.workload.servers import Certificate

KILLS = 3
LARGE = 4 << 20


@pytest.mark.reliability("fault", "sslsniff is killed with -9 while it writes a capture")
@pytest.mark.parametrize("kind", ["pcap", "pcapng"])
def test_a_killed_capture_is_whole(
    kind: str, load: Load, certificate: Certificate, watch: Watch
) -> None:
    path = watch.folder / f"out.{kind}"
    moments = random.Random(11)
    for _ in range(KILLS):
        path.unlink(missing_ok=True)
        with load.receiver(certificate.certificate, certificate.key) as receiver:
            # A gigabyte and more: it is never sent to its end.
            command = load.sender(receiver.port, 1, (200_000, 16 << 10))
            kill_at_random(watch, path, command, moments)
            packets, is_whole = judged(path)
            assert is_whole
            assert packets > 100
    done = sniff("read", path, "--pcap", watch.folder / "again.pcapng")
    assert done.returncode == 0
    assert "cut off" not in done.stderr


def kill_at_random(watch: Watch, path: Path, command: list[str], moments: random.Random) -> None:
    """Watch a command into a new capture file, and be killed: the command goes on."""
    with watch.started("--pcap", path, "--", *command) as sniffer:
        deadline = time.monotonic() + PATIENCE_S
        while not path.exists() or path.stat().st_size < LARGE:
            assert time.monotonic() < deadline
            time.sleep(0.001)
        children = procfs.children(sniffer.pid)
        time.sleep(moments.uniform(0, 0.2))
        sniffer.kill()
        assert sniffer.wait() == -signal.SIGKILL
        [sender] = [each for each in children if procfs.thread_name(each) == "load"]
        assert procfs.state(sender) in {"R", "S"}
        os.kill(sender, signal.SIGKILL)
    for each in children:
        wait_ended(each)
