"""Watching everything, in namespaces of its own: Rust programs from before and from later."""

import contextlib
import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.checks import assert_passed, assert_whole
from tests.live.sniffer import READY, SSLSNIFF, Captured
from tests.workload.enclosure import Enclosure, enclosure, inner_pid, outer_pid
from tests.workload.passed import told
from tests.workload.processes import PATIENCE_S, run
from tests.workload.rust.fixtures import fixtures
from tests.workload.servers import Certificate, Server

pytestmark = pytest.mark.heavy

[SERVER, CLIENT] = [
    each for each in fixtures("server", "blocking") if each[1:] == ("rustls-0-23-ring", "release")
]


@contextlib.contextmanager
def server_inside(inside: Enclosure, file: Path, certificate: Certificate) -> Iterator[Server]:
    """Run a server in a file that nothing outside has mapped: no probe is to be in another."""
    shutil.copy(SERVER.path, file)
    with inside.started(file, certificate.certificate, certificate.key) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        yield Server(inner_pid(outer_pid(process.pid)), port)


def test_everything(certificate: Certificate, tmp_path: Path) -> None:
    """What a client outside asks of both servers inside; nothing of the client."""
    output = tmp_path / "captured.jsonl"
    later_file = tmp_path / "later"
    with enclosure(tmp_path) as inside, contextlib.ExitStack() as ending:
        before = ending.enter_context(server_inside(inside, tmp_path / "before", certificate))
        sniffer = ending.enter_context(inside.started(SSLSNIFF, "--all", "--json", "-o", output))
        assert sniffer.stderr is not None
        assert sniffer.stderr.readline().startswith(READY)
        later = ending.enter_context(server_inside(inside, later_file, certificate))
        news = sniffer.stderr.readline()
        passed = {
            server.pid: told(run(CLIENT.path, str(server.port), certificate.certificate, *counts))
            for server, counts in ((before, ("10", "10")), (later, ("5", "5", "5")))
        }
        os.kill(outer_pid(sniffer.pid), signal.SIGINT)
        _, stderr = sniffer.communicate(timeout=PATIENCE_S)
    lines = output.read_text("utf-8").splitlines()
    captured = Captured([json.loads(line) for line in lines], stderr, sniffer.returncode)

    line = f"{later_file} was loaded by process {later.pid}: watched from now on"
    assert news == f"sslsniff: {line}\n"
    assert (captured.code, captured.stderr) == (0, "")
    for pid, each in passed.items():
        assert_passed(captured, each, role="server", pid=pid, library="rustls")
    assert_whole(captured)
    assert len(captured.exchanges) == 20 + 15
