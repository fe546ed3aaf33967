"""Real programs with GnuTLS: wget, libcurl, gnutls-cli and gnutls-serv."""

import contextlib
import json
import shlex
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.live.checks import (
    Sniff,
    assert_passed,
    assert_whole,
    connections,
    content,
    run_under,
    seen,
)
from tests.live.late import patiently
from tests.live.sniffer import Captured
from tests.workload.curl import Request, gets
from tests.workload.passed import Passed, new_nonce, sha256, told
from tests.workload.processes import PATIENCE_S, PROGRAMS, run, say, started
from tests.workload.python.server import answer, pattern
from tests.workload.servers import Certificate, Server

MEGABYTE = 1_000_000
WGET = ("wget", "-q", "--no-config", "--no-proxy")
UNKNOWN = ("127.0.0.1", 0)
BODIES = (b"", b"a=1", bytes(range(256)), pattern(MEGABYTE))


def requests() -> list[Request]:
    posts = [Request("/echo", "POST", body) for body in BODIES]
    return [*gets(5), *posts, Request("/bytes/16384"), Request(f"/bytes/{4 * MEGABYTE}")]


def wget(request: Request, number: int, server: Server, ca: Certificate, folder: Path) -> list[str]:
    """Return the command for one request; it writes the answer into a file."""
    command = [*WGET, f"--ca-certificate={ca.certificate}"]
    command += ["-O", f"{folder}/{number}.got", f"--header=x-nonce: {request.nonce}"]
    if request.method == "POST":
        sent = folder / f"{number}.sent"
        sent.write_bytes(request.body)
        command.append(f"--post-file={sent}")
    return [*command, server.url + request.target]


def script(commands: list[list[str]]) -> str:
    """Return lines for a shell that run these commands."""
    return "\n".join(["set -e", *map(shlex.join, commands)])


def asked(all_requests: list[Request], server: Server, folder: Path) -> list[Passed]:
    """Return what wget has done, without the ports that it does not tell."""
    return [
        Passed(
            nonce=request.nonce,
            protocol="http/1.1",
            method=request.method,
            target=request.target,
            status=200,
            client=UNKNOWN,
            server=(server.host, server.port),
            request_sha256=sha256(request.body),
            response_sha256=sha256((folder / f"{number}.got").read_bytes()),
        )
        for number, request in enumerate(all_requests)
    ]


def found(captured: Captured, role: str) -> list[Passed]:
    return [seen(each) for each in captured.exchanges if each["role"] == role]


def without_port(passed: list[Passed]) -> list[Passed]:
    return sorted(replace(each, client=(each.client[0], 0)) for each in passed)


@pytest.mark.heavy
def test_wget_from_its_start(server: Server, certificate: Certificate, tmp_path: Path) -> None:
    all_requests = requests()
    commands = [
        wget(each, number, server, certificate, tmp_path)
        for number, each in enumerate(all_requests)
    ]
    captured = run_under(tmp_path, "sh", "-c", script(commands)).captured
    expected = asked(all_requests, server, tmp_path)

    assert expected[-1].response_sha256 == sha256(pattern(4 * MEGABYTE))
    assert without_port(found(captured, "client")) == sorted(expected)
    assert len({each.client for each in found(captured, "client")}) == len(all_requests)
    assert_whole(captured)
    assert (captured.stderr, captured.not_probed) == ("", [])
    assert connections(captured, comm="wget", library="gnutls", joined=False) == len(all_requests)
    assert connections(captured, "closed", comm="wget", role="client") == len(all_requests)


@pytest.mark.heavy
def test_wget_of_a_running_shell(
    server: Server, certificate: Certificate, tmp_path: Path, sniff: Sniff
) -> None:
    """Both ends are watched, and agree: the server's OpenSSL and the client's GnuTLS."""
    all_requests = requests()
    commands = [
        wget(each, number, server, certificate, tmp_path)
        for number, each in enumerate(all_requests)
    ]
    with (
        started("sh", "-c", f"read word; {script(commands)}") as shell,
        sniff("--hold", "--pid", str(server.pid), "--pid", str(shell.pid)) as sniffer,
    ):
        shell.communicate("go\n", timeout=2 * PATIENCE_S)
        assert shell.returncode == 0
        sniffer.until(2 * len(all_requests))
        captured = sniffer.stop()
    client, server_side = found(captured, "client"), found(captured, "server")

    assert sorted(client) == sorted(server_side)
    assert without_port(client) == sorted(asked(all_requests, server, tmp_path))
    assert_whole(captured)
    libraries = {(each["role"], each["library"]) for each in captured.exchanges}
    assert libraries == {("client", "gnutls"), ("server", "openssl")}


@pytest.mark.heavy
def test_wget_keeps_a_connection(server: Server, certificate: Certificate, tmp_path: Path) -> None:
    targets = [f"/page/{number}" for number in range(20)]
    nonce = new_nonce()
    command = [
        "wget",
        "-q",
        "--no-config",
        "--no-proxy",
        f"--ca-certificate={certificate.certificate}",
    ]
    command += ["-P", str(tmp_path / "got"), f"--header=x-nonce: {nonce}"]
    captured = run_under(tmp_path, *command, *(server.url + each for each in targets)).captured

    passed = found(captured, "client")
    assert [each.target for each in passed] == targets
    assert {each.nonce for each in passed} == {nonce}
    bodies = [sha256(answer("GET", each, b"")) for each in targets]
    assert [each.response_sha256 for each in passed] == bodies
    assert_whole(captured)
    assert connections(captured, comm="wget", library="gnutls", joined=False) == 1
    assert connections(captured, "closed") == 1


@pytest.mark.parametrize("version", ["1.1", "2"])
def test_libcurl(version: str, server: Server, certificate: Certificate, tmp_path: Path) -> None:
    """All at once: over HTTP/2 on one connection, over HTTP/1.1 on one each."""
    all_requests = requests()
    lines = ""
    for number, each in enumerate(all_requests):
        file = tmp_path / f"{number}.sent"
        file.write_bytes(each.body)
        lines += json.dumps([each.method, each.target, each.nonce, str(file)]) + "\n"
    program = PROGRAMS / "python/pycurl_client.py"
    command = ("/usr/bin/python3", program, server.url, certificate.certificate, version)
    ran = run_under(tmp_path, *command, stdin=lines.encode())
    passed = told(ran.stdout.decode())

    assert len(passed) == len(all_requests)
    assert passed[-1].response_sha256 == sha256(pattern(4 * MEGABYTE))
    assert_passed(ran.captured, passed, role="client", library="gnutls")
    assert_whole(ran.captured)
    count = len({each.client for each in passed})
    assert count == (1 if version == "2" else len(all_requests))
    assert connections(ran.captured, library="gnutls", joined=False) == count
    assert connections(ran.captured, "closed", role="client") == count


@contextlib.contextmanager
def gnutls_serv(certificate: Certificate, mode: str) -> Iterator[Server]:
    """Run gnutls-serv, as an HTTP server or one that repeats lines."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    files = ("--x509certfile", certificate.certificate, "--x509keyfile", certificate.key)
    with started("gnutls-serv", mode, "-a", "-p", str(port), *files) as process:
        for _ in patiently():
            with contextlib.suppress(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", port)).close()
                break
        yield Server(process.pid, port)


@pytest.mark.parametrize("tls_version", ["1.2", "1.3"])
def test_gnutls_serv(
    tls_version: str, certificate: Certificate, tmp_path: Path, sniff: Sniff
) -> None:
    """A server that ran before."""
    targets = [f"/{number}" for number in range(7)]
    shown = []
    with (
        gnutls_serv(certificate, "--http") as server,
        sniff("--pid", str(server.pid)) as sniffer,
    ):
        for number, target in enumerate(targets):
            command = ["curl", "-q", "-sS", "--noproxy", "*", "--tls-max", tls_version]
            command += ["--cacert", str(certificate.certificate)]
            command += ["-o", f"{tmp_path}/{number}", "-w", "%{local_port}"]
            shown.append(int(run(*command, server.url + target)))
        sniffer.until(len(targets))
        captured = sniffer.stop()
    assert_whole(captured)
    exchanges = captured.exchanges
    assert [each["request"]["target"] for each in exchanges] == targets
    assert [each["client"]["port"] for each in exchanges] == shown
    assert {each["server"]["port"] for each in exchanges} == {server.port}
    bodies = [(tmp_path / str(number)).read_bytes() for number in range(len(targets))]
    assert [content(each["response"]["body"]) for each in exchanges] == bodies
    assert all(bodies)
    facts = {"comm": "gnutls-serv", "role": "server", "tls_version": f"TLS {tls_version}"}
    assert connections(captured, "opened", **facts) == len(targets)
    assert connections(captured, library="gnutls", joined=False) == len(targets)


def streams(captured: Captured, comm: str) -> dict[str, str]:
    """Return what the only connection of a program wrote and read."""
    found = {"write": "", "read": ""}
    for each in captured.of("chunk"):
        if each["comm"] == comm:
            found[each["direction"]] += content(each["data"]).decode()
    return found


def test_a_session_that_was_open_before(certificate: Certificate, sniff: Sniff) -> None:
    """gnutls-cli and gnutls-serv repeat lines to each other; the first is not seen."""
    with gnutls_serv(certificate, "--echo") as server:
        ca = f"--x509cafile={certificate.certificate}"
        options = (ca, "-p", str(server.port), "--no-ca-verification")
        with started("gnutls-cli", *options, "localhost") as client:
            assert client.stdout is not None
            say(client, "before")
            while client.stdout.readline() != "before\n":
                pass
            pids = ("--pid", str(client.pid), "--pid", str(server.pid))
            with sniff("--chunks", *pids) as sniffer:
                lines = [f"line {number} " + "x" * number for number in range(50)]
                for each in lines:
                    say(client, each)
                    assert client.stdout.readline() == f"{each}\n"
                captured = sniffer.stop()
    text = "".join(f"{each}\n" for each in lines)
    assert streams(captured, "gnutls-cli") == {"write": text, "read": text}
    assert streams(captured, "gnutls-serv") == {"write": text, "read": text}
    assert connections(captured, joined=True, library="gnutls") == 2
    assert captured.not_probed == []
    assert captured.summary["lost_bytes"] == 0
