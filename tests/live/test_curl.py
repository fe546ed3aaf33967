"""curl against the server of tests/workload: every request, each byte, both addresses."""

import shlex
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.checks import Sniff, assert_passed, assert_whole, connections, run_under
from tests.workload.curl import Request, curl, gets, results
from tests.workload.passed import sha256
from tests.workload.processes import PATIENCE_S, run, say, started
from tests.workload.python.server import pattern
from tests.workload.servers import Certificate, Server, python_server

ALPN = {"--http1.1": "http/1.1", "--http2": "h2"}
MEGABYTE = 1_000_000


@pytest.fixture(scope="module")
def server6(certificate: Certificate) -> Iterator[Server]:
    with python_server(certificate, "::1") as running:
        yield running


def test_keep_alive(server: Server, certificate: Certificate, tmp_path: Path) -> None:
    requests = gets(23)
    ran = run_under(tmp_path, *curl(server.url, requests, certificate, tmp_path, "--http1.1"))
    passed = results(ran.stdout.decode(), requests)

    assert_passed(ran.captured, passed, role="client")
    assert_whole(ran.captured)
    facts = {"sni": "localhost", "alpn": "http/1.1", "tls_version": "TLS 1.3", "comm": "curl"}
    assert connections(ran.captured, **facts) == len({each.client for each in passed}) == 1
    assert connections(ran.captured, "closed", **facts) == 1


def test_http2_parallel(server: Server, certificate: Certificate, tmp_path: Path) -> None:
    requests = [*gets(39), Request("/bytes/70000")]
    options = ("--http2", "--parallel", "--parallel-max", "40")
    ran = run_under(tmp_path, *curl(server.url, requests, certificate, tmp_path, *options))
    passed = results(ran.stdout.decode(), requests)

    assert_passed(ran.captured, passed, role="client")
    assert_whole(ran.captured)
    streams = [each["stream"] for each in ran.captured.exchanges]
    assert sorted(streams) == list(range(1, 80, 2))
    facts = {"sni": "localhost", "alpn": "h2", "tls_version": "TLS 1.3"}
    assert connections(ran.captured, **facts) == len({each.client for each in passed}) == 1


def test_one_connection_each(server: Server, certificate: Certificate, tmp_path: Path) -> None:
    requests = gets(7)
    options = ("--http1.1", "-H", "Connection: close", "--tls-max", "1.2")
    ran = run_under(tmp_path, *curl(server.url, requests, certificate, tmp_path, *options))
    passed = results(ran.stdout.decode(), requests)

    assert_passed(ran.captured, passed, role="client")
    assert_whole(ran.captured)
    assert connections(ran.captured, tls_version="TLS 1.2") == 7
    assert len({each.client for each in passed}) == 7


@pytest.mark.parametrize("version", ALPN)
def test_bodies(version: str, server: Server, certificate: Certificate, tmp_path: Path) -> None:
    requests = [
        Request("/echo", "POST", b"a=1&b=%20"),
        Request("/echo", "POST", bytes(range(256))),
        Request("/echo", "POST", pattern(MEGABYTE)),
        Request("/echo", "PUT", pattern(MEGABYTE + 1)),
        Request(f"/bytes/{MEGABYTE}"),
        Request(f"/bytes/{10 * MEGABYTE}"),
        Request(f"/bytes/{MEGABYTE}", "HEAD"),
        Request("/bytes/0"),
        Request("/bytes/1"),
    ]
    ran = run_under(tmp_path, *curl(server.url, requests, certificate, tmp_path, version))
    passed = results(ran.stdout.decode(), requests)

    assert sha256(pattern(10 * MEGABYTE)) in {each.response_sha256 for each in passed}
    assert_passed(ran.captured, passed, role="client")
    assert_whole(ran.captured)
    assert connections(ran.captured, alpn=ALPN[version]) == 1


@pytest.mark.parametrize("version", ALPN)
def test_ipv6(version: str, server6: Server, certificate: Certificate, tmp_path: Path) -> None:
    requests = gets(5)
    origin = f"https://[::1]:{server6.port}"
    ran = run_under(
        tmp_path, *curl(origin, requests, certificate, tmp_path, version, "--noproxy", "*")
    )
    passed = results(ran.stdout.decode(), requests)

    assert {each.server for each in passed} == {("::1", server6.port)}
    assert_passed(ran.captured, passed, role="client")
    assert_whole(ran.captured)
    assert connections(ran.captured, sni=None) == 1  # RFC 6066 section 3: no addresses there


def test_server_side(
    server: Server, certificate: Certificate, tmp_path: Path, sniff: Sniff
) -> None:
    """Both protocols on the server, which ran before; its clients are not watched."""
    requests = [*gets(10), Request("/echo", "POST", pattern(100_000))]
    passed = []
    with sniff("--pid", str(server.pid)) as sniffer:
        for version in ALPN:
            directory = tmp_path / version
            directory.mkdir()
            command = curl(server.url, requests, certificate, directory, version)
            passed += results(run(*command), requests)
        sniffer.until(22)
        captured = sniffer.stop()

    assert_passed(captured, passed, role="server", pid=server.pid)
    assert_whole(captured)
    assert connections(captured, sni="localhost", tls_version="TLS 1.3") == 2


def test_children_of_a_shell(
    server: Server, certificate: Certificate, tmp_path: Path, sniff: Sniff
) -> None:
    """A shell that was there before starts curl again and again."""
    requests = gets(4)
    command = shlex.join(curl(server.url, requests, certificate, tmp_path, "--http1.1"))
    script = f"read word; for time in 1 2 3; do {command}; done"
    with (
        started("sh", "-c", script) as shell,
        sniff("--pid", str(shell.pid)) as sniffer,
    ):
        stdout, _ = shell.communicate("go\n", PATIENCE_S)
        captured = sniffer.wait()  # its processes are gone: it ends by itself
    lines = stdout.splitlines(keepends=True)
    passed = [
        each for run in (0, 4, 8) for each in results("".join(lines[run : run + 4]), requests)
    ]

    assert captured.code == 0
    assert_passed(captured, passed, role="client")
    assert_whole(captured)
    assert connections(captured, comm="curl", sni="localhost") == 3
    assert len({each["pid"] for each in captured.exchanges}) == 3
    assert shell.pid not in {each["pid"] for each in captured.exchanges}


def test_library_found_later(
    server: Server, certificate: Certificate, tmp_path: Path, sniff: Sniff
) -> None:
    """A library that nobody used before is seen when a child maps it, soon enough for the next."""
    [library] = Path("/usr/lib").glob("*/libssl.so.3")
    shutil.copy(library, tmp_path)
    first, second = tmp_path / "first", tmp_path / "second"
    lines = [f"export LD_LIBRARY_PATH={tmp_path}"]
    requests = gets(4)
    for directory in first, second:
        directory.mkdir()
        command = curl(server.url, requests, certificate, directory, "--http1.1")
        lines += ["read word", f"{shlex.join(command)} > {directory}/told"]
    with (
        started("sh", "-c", "\n".join(lines)) as shell,
        sniff("--pid", str(shell.pid)) as sniffer,
    ):
        say(shell, "go")
        sniffer.until_told(f"{tmp_path / library.name} was loaded")
        shell.communicate("go\n", PATIENCE_S)
        captured = sniffer.wait()
    last = captured.exchanges[-1]["pid"]
    assert_passed(
        captured, results((second / "told").read_text(), requests), role="client", pid=last
    )
    assert_whole(captured)


def test_another_process_is_not_seen(
    server: Server, certificate: Certificate, tmp_path: Path, sniff: Sniff
) -> None:
    """The control: where the probes do not fire for curl, nothing may be found."""
    requests = gets(5)
    with (
        started("cat") as bystander,
        sniff("--pid", str(bystander.pid)) as sniffer,
    ):
        passed = results(run(*curl(server.url, requests, certificate, tmp_path)), requests)
        captured = sniffer.stop()
    assert len(passed) == 5
    assert captured.exchanges == []
    assert connections(captured) == 0
    with pytest.raises(AssertionError):
        assert_passed(captured, passed, role="client")


def test_command_keeps_its_output(server: Server, certificate: Certificate, tmp_path: Path) -> None:
    command = ["curl", "-q", "-sS", "--cacert", str(certificate.certificate), server.url + "/x"]
    plain = subprocess.run(command, capture_output=True, check=True)
    ran = run_under(tmp_path, *command)
    assert ran.stdout == plain.stdout == b"hello from /x\n"
    assert ran.captured.stderr == ""
    assert len(ran.captured.exchanges) == 1


def test_command_keeps_its_input(tmp_path: Path) -> None:
    ran = run_under(tmp_path, "sh", "-c", "cat; exit 42", stdin=b"\0through\xff\n", code=42)
    assert ran.stdout == b"\0through\xff\n"


def test_command_keeps_its_failure(certificate: Certificate, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    command = ["curl", "-q", "-sS", "--noproxy", "*", f"https://127.0.0.1:{port}/"]
    plain = subprocess.run(command, capture_output=True)
    ran = run_under(tmp_path, *command, code=7)
    assert (ran.stdout, plain.stdout, plain.returncode) == (b"", b"", 7)
    assert ran.captured.stderr.startswith("curl: (7) ")
    assert ran.captured.exchanges == []


def test_command_that_is_killed(tmp_path: Path) -> None:
    run_under(tmp_path, "sh", "-c", "kill -TERM $$", code=143)


def test_command_that_does_not_exist(tmp_path: Path) -> None:
    ran = run_under(tmp_path, "./there-is-no-such-command", "--option", code=1)
    assert ran.stdout == b""
    assert ran.captured.stderr.startswith("sslsniff: ")
    assert "./there-is-no-such-command" in ran.captured.stderr
    assert ran.captured.stderr.count("\n") == 1
