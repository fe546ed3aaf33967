"""The bar that shows how far a file was read, on a terminal."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from scapy.layers.inet import IP, IPOption_NOP
from scapy.utils import PcapWriter

from tests.unit.captures import answer, get
from tests.unit.files.foreign import FAR, NEAR, Wire
from tests.workload.terminal_screen import on_terminal

pytestmark = pytest.mark.heavy

SSLSNIFF = Path(sys.executable).with_name("sslsniff")


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture that takes some seconds to read: one exchange, and much that is none."""
    path = tmp_path_factory.mktemp("long") / "long.pcap"
    tcp = Wire()
    tcp.handshake()
    tcp.send(NEAR, get("/a"))
    tcp.send(FAR, answer(b"ok"))
    start = len(tcp.packets)
    for _ in range(1000):
        tcp.send(NEAR, b"\x00\xffnoise")[IP].options = [IPOption_NOP()] * 4  # 30 us each
    with PcapWriter(str(path)) as writer:
        writer.write(tcp.packets)
    header = path.read_bytes()[:24]
    with PcapWriter(str(path)) as writer:
        writer.write(tcp.packets[start:])
    noise = path.read_bytes()[24:]
    with PcapWriter(str(path)) as writer:
        writer.write(tcp.packets[:start])
    first = path.read_bytes()
    assert first[:24] == header
    path.write_bytes(first + noise * 500)
    return path


def test_a_long_file_has_a_bar(long: Path, tmp_path: Path) -> None:
    with on_terminal(100, 20, SSLSNIFF, "read", long, "--json", "-o", tmp_path / "out") as screen:
        screen.until("B/s")
        shown = screen.text
        assert screen.ended() == 0
    assert re.search(r"\d+% .* [kMG]B/s .*1 exchange", shown), shown
    assert "1 exchange" not in screen.text


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_lines_on_the_terminal_have_none(long: Path, options: list[str]) -> None:
    with on_terminal(100, 20, SSLSNIFF, "read", long, *options) as screen:
        screen.until(lambda: b"/a" in screen.written)
        assert screen.ended() == 0
    assert b"B/s" not in screen.written


def test_a_pipe_has_none(long: Path) -> None:
    done = subprocess.run([SSLSNIFF, "read", long], capture_output=True, timeout=60, check=True)
    assert b"B/s" not in done.stderr
