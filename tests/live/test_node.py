"""Node.js: OpenSSL inside the program itself, fed through memory, many connections a thread."""

import re
import shutil
from pathlib import Path

import pytest

from tests.live.checks import Sniff, assert_passed, connections
from tests.live.node_peers import PROGRAM, assert_known, assert_protocols, watch_peers
from tests.workload.node import NODE
from tests.workload.passed import told
from tests.workload.processes import PATIENCE_S, run, started
from tests.workload.servers import Certificate

pytestmark = pytest.mark.heavy

NODES = {"wheel": NODE, "system": Path("/usr/bin/node")}


@pytest.mark.parametrize("name", NODES)
def test_client_and_server(name: str, certificate: Certificate, sniff: Sniff) -> None:
    peers = watch_peers((NODES[name], PROGRAM), certificate, sniff)
    assert connections(peers.captured, tls_version="TLS 1.3") == 12
    assert_known(peers)
    assert_protocols(peers)


def test_by_the_name_of_the_program(certificate: Certificate, tmp_path: Path, sniff: Sniff) -> None:
    """Node.js 24 names its main thread, and with it the process, ``MainThread``."""
    node = tmp_path / "node"  # a copy: nobody else's program is watched
    shutil.copy(NODES["wheel"], node)
    with (
        started(node, PROGRAM, "server", certificate.certificate, certificate.key) as server,
        sniff("--comm", "node", "--lib", str(node)) as sniffer,
    ):
        assert server.stdout is not None
        port = server.stdout.readline().strip()
        with started(node, PROGRAM, "client", certificate.certificate, port) as client:
            stdout, _ = client.communicate("go\n", PATIENCE_S)
        sniffer.until(2 * 48)
        captured = sniffer.stop()
    passed = told(stdout)
    assert_passed(captured, passed, role="client", pid=client.pid)
    assert_passed(captured, passed, role="server", pid=server.pid)
    assert {each["comm"] for each in captured.exchanges} <= {"node", "MainThread"}


MOST_MB = 80  # a start that knows all its files takes 59, and the disassembler 10


def test_little_memory_for_a_program_not_seen_before(tmp_path: Path, sniff: Sniff) -> None:
    """What is searched of 120 MB is neither read at once nor kept."""
    node = tmp_path / "node"
    shutil.copy(NODES["wheel"], node)
    assert node.stat().st_size > MOST_MB * 1_000_000
    with (
        started(node, "-e", "process.stdin.resume()") as process,
        sniff("--pid", str(process.pid)) as sniffer,
    ):
        assert f"{node} is not probed" not in sniffer.errors.read_text()
        status = Path(f"/proc/{sniffer.process.pid}/status").read_text()
        sniffer.stop()
    [most_kib] = re.findall(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
    assert int(most_kib) * 1024 / 1e6 < MOST_MB


LATE_END = """
const [certificate, key] = process.argv.slice(1).map((name) => require('fs').readFileSync(name));
const server = require('http2').createSecureServer({ cert: certificate, key });
server.on('stream', (stream) => {
  stream.on('error', () => {});
  stream.respond({ ':status': 200, 'content-length': 20000 });
  stream.write(Buffer.alloc(20000));
  setImmediate(() => stream.end());
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
"""


def test_a_client_resets_what_is_over(certificate: Certificate, sniff: Sniff) -> None:
    """curl 7.88 has all bytes that were announced, and resets before the frame that ends them."""
    with (
        started(NODES["wheel"], "-e", LATE_END, certificate.certificate, certificate.key) as server,
        sniff("--pid", str(server.pid), "--frames") as sniffer,
    ):
        assert server.stdout is not None
        url = f"https://127.0.0.1:{server.stdout.readline().strip()}/?[1-20]"
        run("curl", "-sk", "--http2", "-o", "/dev/null", "--no-progress-meter", url)
        sniffer.until(20)
        captured = sniffer.stop()
    assert [each["error"] for each in captured.exchanges] == [None] * 20
    resets = [each for each in captured.of("frame") if each["frame"] == "RST_STREAM"]
    assert {each["error_code"] for each in resets} == {"STREAM_CLOSED"}
