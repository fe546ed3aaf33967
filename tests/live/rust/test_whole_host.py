"""Watching everything, in namespaces of its own: Rust programs from before and from later."""

import json
import os
import shutil
import signal
from pathlib import Path

from tests.live.checks import assert_passed, assert_whole, run, told
from tests.live.enclosure import enclosure, inner_pid, outer_pid
from tests.live.rust.fixtures import fixtures
from tests.live.sniffer import PATIENCE_S, READY, SSLSNIFF, Captured
from tests.servers import Certificate

[SERVER, CLIENT] = [
    each for each in fixtures("server", "blocking") if each[1:] == ("rustls-0-23-ring", "release")
]


def test_everything(certificate: Certificate, tmp_path: Path) -> None:
    """The files are copies that nothing outside has mapped, so that no probe stands elsewhere."""
    server_file, client_file = (
        shutil.copy(each.path, tmp_path / each.program) for each in (SERVER, CLIENT)
    )
    output = tmp_path / "captured.jsonl"
    files = (str(certificate.certificate), str(certificate.key))
    with (
        enclosure(tmp_path) as inside,
        inside.started(server_file, *files) as server,
    ):
        assert server.stdout is not None
        options = (server.stdout.readline().strip(), files[0], "10", "10")
        server_pid = inner_pid(outer_pid(server.pid))
        with inside.started(SSLSNIFF, "--json", "-o", output) as sniffer:
            assert sniffer.stderr is not None
            assert sniffer.stderr.readline().startswith(READY)
            outside = told(run(CLIENT.path, *options))
            inside.run(client_file, *options[:2])  # which connects to nothing
            came = sniffer.stderr.readline()
            within = told(inside.run(client_file, *options).stdout)
            os.kill(outer_pid(sniffer.pid), signal.SIGINT)
            _, stderr = sniffer.communicate(timeout=PATIENCE_S)
    lines = output.read_text("utf-8").splitlines()
    captured = Captured([json.loads(line) for line in lines], stderr, sniffer.returncode)

    assert came.startswith(f"sslsniff: {client_file} came into use by process ")
    assert (captured.code, captured.stderr) == (0, "")
    assert (len(outside), len(within)) == (20, 20)
    passed = [*outside, *within]
    assert_passed(captured, passed, role="server", pid=server_pid, library="rustls")
    assert_passed(captured, within, role="client", library="rustls")
    assert_whole(captured)
