"""examples/alert.py: it shows a failed request of a running process, and no other."""

import shlex
import subprocess
import sys
from pathlib import Path

from tests.workload.processes import say, started
from tests.workload.servers import Certificate, Server

ROOT = Path(__file__).parents[2]


def test_it_shows_what_failed(server: Server, certificate: Certificate) -> None:
    get = ("curl", "-sS", "-o", "/dev/null", "--http1.1", "--cacert", str(certificate.certificate))
    good, bad = (*get, f"{server.url}/bytes/5"), (*get, "-X", "BREW", f"{server.url}/bytes/6")
    script = "\n".join(("read word", shlex.join(good), shlex.join(bad), "read word"))
    with started("sh", "-c", script) as shell:
        command = [sys.executable, "examples/alert.py", str(shell.pid)]
        with subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as alert:
            assert alert.stdout is not None
            assert alert.stderr is not None
            while "watching" not in (line := alert.stderr.readline()):
                assert line
            say(shell, "go")
            assert alert.stdout.readline() == f"failed: {server.url}/bytes/6: 501\n"
            say(shell, "end")
            assert alert.communicate()[0] == ""
