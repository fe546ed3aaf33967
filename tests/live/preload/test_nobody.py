"""``sslsniff -- COMMAND`` as a user without rights: real programs, each request and both ends."""

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.checks import Ran, assert_passed, assert_whole, connections, read
from tests.live.refusals import NOBODY, as_nobody, assert_told
from tests.live.sniffer import Captured
from tests.live.test_gnutls import UNKNOWN, found, script, wget, without_port
from tests.live.test_gnutls import asked as asked_by_wget
from tests.live.test_gnutls import requests as requests_of_wget
from tests.workload.curl import Request, curl, gets, results
from tests.workload.go.fixtures import BEFORE, NEWEST, Fixture
from tests.workload.passed import told
from tests.workload.processes import run
from tests.workload.python.server import pattern
from tests.workload.servers import Certificate, Server

PYTHON = "/mnt/.venv/bin/python"
PROGRAMS = "/mnt/tests/workload/python"


@pytest.fixture
def folder(certificate: Certificate) -> Iterator[Path]:
    """A folder of that user's; ``own_certificate`` is in it."""
    made = Path(tempfile.mkdtemp())
    shutil.copy(certificate.certificate, made / "certificate.pem")
    os.chown(made, int(NOBODY), int(NOBODY))
    (made / "certificate.pem").chmod(0o644)
    yield made
    shutil.rmtree(made)


@pytest.fixture
def own_certificate(folder: Path) -> Certificate:
    return Certificate(folder / "certificate.pem", folder / "none")


def run_as_nobody(folder: Path, *command: str | Path, stdin: str = "", options: str = "") -> Ran:
    output = folder / "captured.jsonl"
    done = as_nobody("--json", *options.split(), "-o", output, "--", *command, stdin=stdin)
    lines = output.read_text("utf-8").splitlines() if output.exists() else []
    captured = Captured([json.loads(line) for line in lines], done.stderr, done.returncode)
    assert captured.code == 0, captured.stderr
    return Ran(captured, done.stdout.encode())


@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
def test_curl(version: str, server: Server, own_certificate: Certificate, folder: Path) -> None:
    requests = [*gets(20), Request("/bytes/200000"), Request("/echo", "POST", pattern(100_000))]
    command = curl(server.url, requests, own_certificate, folder, version)
    capture = folder / "capture.pcapng"
    ran = run_as_nobody(folder, *command, options=f"--pcap {capture}")
    assert_passed(ran.captured, results(ran.stdout.decode(), requests), role="client")
    assert_whole(ran.captured)
    alpn = {"--http1.1": "http/1.1", "--http2": "h2"}[version]
    facts = {"sni": "localhost", "alpn": alpn, "tls_version": "TLS 1.3", "comm": "curl"}
    assert connections(ran.captured, joined=False, **facts) == 1
    assert connections(ran.captured, "closed", **facts) == 1
    assert read(capture).exchanges == ran.captured.exchanges


def test_wget(server: Server, own_certificate: Certificate, folder: Path) -> None:
    requests = requests_of_wget()
    commands = [
        wget(request, number, server, own_certificate, folder)
        for number, request in enumerate(requests)
    ]
    ran = run_as_nobody(folder, "sh", "-c", script(commands))
    expected = asked_by_wget(requests, server, folder)
    assert all(each.client[1] for each in found(ran.captured, "client"))
    assert without_port(found(ran.captured, "client")) == without_port(expected)
    assert {each.client for each in expected} == {UNKNOWN}
    assert {each["library"] for each in ran.captured.exchanges} == {"gnutls"}
    assert_whole(ran.captured)


@pytest.mark.parametrize("style", ["http.client", "requests", "threads"])
def test_python(style: str, server: Server, own_certificate: Certificate, folder: Path) -> None:
    program = (PYTHON, f"{PROGRAMS}/python_client.py", style, str(server.port))
    ran = run_as_nobody(folder, *program, own_certificate.certificate, stdin="3\n6\n")
    passed = told("".join(line + "\n" for line in ran.stdout.decode().splitlines() if line))
    assert len(passed) == 9 * (4 if style == "threads" else 1)
    assert_passed(ran.captured, passed, role="client")
    assert_whole(ran.captured)


def test_memory_buffers(server: Server, own_certificate: Certificate, folder: Path) -> None:
    """The library has no descriptor, and the thread also asks for names by UDP."""
    program = (PYTHON, f"{PROGRAMS}/asks_names.py", str(server.port))
    ran = run_as_nobody(folder, *program, own_certificate.certificate, "3")
    assert_whole(ran.captured)
    assert [each["client"]["port"] for each in ran.captured.exchanges] == [int(ran.stdout)] * 3
    assert {each["server"]["port"] for each in ran.captured.exchanges} == {server.port}


def test_exit_code_and_streams(folder: Path) -> None:
    done = as_nobody("--json", "-o", folder / "first.jsonl", "--", "sh", "-c", "cat; exit 7")
    assert (done.returncode, done.stdout) == (7, "")
    ran = run_as_nobody(folder, "cat", stdin="as it is\n")
    assert ran.stdout == b"as it is\n"


def test_what_still_needs_rights(bystander: str, own_library: Path) -> None:
    """Each error names what can be done without them, too."""
    for arguments in (["--pid", bystander], ["--lib", str(own_library)]):
        done = as_nobody(*arguments)
        assert_told(done, f"user {NOBODY}")
        assert "sslsniff -- COMMAND" in done.stderr
    done = as_nobody("--engine", "probes", "--", "true")
    assert_told(done, f"user {NOBODY}")
    done = as_nobody("--keylog", "/dev/null", "--", "true")
    assert_told(done, f"user {NOBODY}")
    assert "leave out --keylog" in done.stderr


@pytest.mark.parametrize(("release", "mode"), [(BEFORE, "stripped"), (NEWEST, "plain")])
def test_go_is_named(release: str, mode: str, folder: Path) -> None:
    """A Go program loads no library: that is said at once, with what would show it."""
    program = folder / "client"
    shutil.copy(Fixture("client", release, mode).path, program)
    program.chmod(0o755)
    done = as_nobody("--json", "-o", folder / "captured.jsonl", "--", program)
    first = done.stderr.splitlines()[0]
    assert re.fullmatch(
        rf"sslsniff: not probed: go .*\({program}\): the program loads no libraries;"
        r" run sslsniff with sudo",
        first,
    ), done.stderr


def test_static_program_is_named(folder: Path) -> None:
    source, program = folder / "empty.c", folder / "empty"
    source.write_text("int main(void) { return 0; }\n")
    run("gcc", "-static", "-o", program, source)
    ran = run_as_nobody(folder, program)
    [line] = ran.captured.not_probed
    assert "the program loads no libraries; run sslsniff with sudo" in line
    [row] = ran.captured.summary["not_probed"]
    assert row["library"] == "unknown"
