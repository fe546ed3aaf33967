"""kill -9 under load, at random moments: the capture is whole to the last packet written."""

import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.live.refusals import sniff
from tests.live.sniffer import READY, SSLSNIFF
from tests.unit.captures import wait_ended
from tests.unit.sinks.test_pcap_killed import judged
from tests.workload.load import Load
from tests.workload.processes import PATIENCE_S
from tests.workload.servers import Certificate

KILLS = 3
LARGE = 4 << 20


@pytest.mark.reliability("fault", "sslsniff is killed with -9 while it writes a capture")
@pytest.mark.parametrize("kind", ["pcap", "pcapng"])
def test_a_killed_capture_is_whole(
    kind: str, load: Load, certificate: Certificate, tmp_path: Path
) -> None:
    path = tmp_path / f"out.{kind}"
    moments = random.Random(11)
    with load.receiver(certificate.certificate, certificate.key) as receiver:
        # A gigabyte and more: it is never sent to its end.
        command = load.sender(receiver.port, 1, (200_000, 16 << 10))
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as sender:
            try:
                for _ in range(KILLS):
                    kill_at_random(sender.pid, path, moments)
                    packets, is_whole = judged(path)
                    assert is_whole
                    assert packets > 100
                    assert sender.poll() is None
            finally:
                sender.kill()
    done = sniff("read", path, "--pcap", tmp_path / "again.pcapng")
    assert done.returncode == 0
    assert "cut off" not in done.stderr


def kill_at_random(pid: int, path: Path, moments: random.Random) -> None:
    """Watch a process into a new capture file, and be killed."""
    with subprocess.Popen(
        [SSLSNIFF, "--pid", str(pid), "--pcap", path, "--force"], stderr=subprocess.PIPE, text=True
    ) as sniffer:
        try:
            assert sniffer.stderr is not None
            assert sniffer.stderr.readline().startswith(READY)
            deadline = time.monotonic() + PATIENCE_S
            while path.stat().st_size < LARGE:
                assert time.monotonic() < deadline
                time.sleep(0.001)
            children = Path(f"/proc/{sniffer.pid}/task/{sniffer.pid}/children").read_text()
            time.sleep(moments.uniform(0, 0.2))
        finally:
            sniffer.kill()
    assert sniffer.returncode == -signal.SIGKILL
    for guard in children.split():
        wait_ended(int(guard))
