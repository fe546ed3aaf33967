"""Key logs of running programs: tshark decrypts all that they sent, with each library."""

import contextlib
import os
import signal
import socket
import ssl
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.live.checks import run_under
from tests.live.late import patiently
from tests.live.node_peers import PROGRAM as NODE_PROGRAM
from tests.live.sniffer import SSLSNIFF
from tests.live.stripped.test_boringssl import BUN, WHEELS
from tests.workload.go.fixtures import BEFORE, NEWEST, OLDEST, Fixture
from tests.workload.passed import new_nonce
from tests.workload.processes import PATIENCE_S, PROGRAMS, Process, next_line, run, started
from tests.workload.python.server import pattern
from tests.workload.recorded import Decrypted, decrypted, quic_packets, recorded
from tests.workload.rust.fixtures import Fixture as RustFixture
from tests.workload.rust.fixtures import fixtures
from tests.workload.servers import Certificate, Server, built_server

REQUESTS = 20
EARLY_RUSTLS = "server-rustls-0-21-release"

Command = list[str | Path]


def assert_decrypted(seen: Decrypted, connections: int | None = 1) -> None:
    """Each record is decrypted: its kind, both ends of each handshake, and all responses."""
    assert seen.records == seen.readable
    assert seen.answers == REQUESTS
    if connections is not None:
        # Go's client may open one more, while a connection is on its way back into the pool.
        assert seen.finished >= 2 * connections
        assert seen.finished % 2 == 0
    assert seen.finished >= 2


def curl(server: Server, certificate: Certificate, folder: Path, tls_version: str) -> Command:
    url = f"{server.url}/bytes/[1001-{1000 + REQUESTS}]"
    trusted = ("--cacert", certificate.certificate)
    return ["curl", "-s", "--tls-max", tls_version, *trusted, "-o", "/dev/null", url]


def wget(server: Server, certificate: Certificate, folder: Path, tls_version: str) -> Command:
    urls = [f"{server.url}/bytes/{1001 + at}" for at in range(REQUESTS)]
    protocol = f"--secure-protocol=TLSv{tls_version.replace('.', '_')}"
    trusted = f"--ca-certificate={certificate.certificate}"
    return ["wget", "-q", "--no-config", protocol, trusted, "-O", "/dev/null", *urls]


def node(server: Server, certificate: Certificate, folder: Path, tls_version: str) -> Command:
    program = ("/usr/bin/node", f"--tls-max-v{tls_version}", NODE_PROGRAM)
    return [*program, "client", certificate.certificate, str(server.port), "10"]


def bun(server: Server, certificate: Certificate, folder: Path, tls_version: str) -> Command:
    return [BUN, NODE_PROGRAM, "client", certificate.certificate, str(server.port), "10"]


def go(release: str, mode: str) -> Callable[[Server, Certificate, Path, str], Command]:
    def command(server: Server, ca: Certificate, folder: Path, tls_version: str) -> Command:
        program = Fixture("client", release, mode).path
        return [program, str(server.port), ca.certificate, "1:10", "2:10"]

    return command


def rustls(fixture: RustFixture) -> Callable[[Server, Certificate, Path, str], Command]:
    def command(server: Server, ca: Certificate, folder: Path, tls_version: str) -> Command:
        return [fixture.path, str(server.port), ca.certificate, "10", "10"]

    return command


def curl_cffi(server: Server, certificate: Certificate, folder: Path, tls_version: str) -> Command:
    bodies = [new_nonce() for _ in range(REQUESTS)]
    for nonce in bodies:
        (folder / nonce).write_bytes(pattern(1000))
    program = PROGRAMS / "python/curl_cffi_client.py"
    return [WHEELS, program, str(server.port), certificate.certificate, folder, "1", *bodies]


BOTH = ("1.2", "1.3")
CLIENTS = {
    "curl": (curl, BOTH, 1),
    "wget": (wget, BOTH, 1),
    "node": (node, BOTH, None),
    "bun": (bun, ("1.3",), None),
    "go-before": (go(BEFORE, "stripped"), BOTH, 2),
    "go-oldest": (go(OLDEST, "stripped"), BOTH, 2),
    "go-newest": (go(NEWEST, "plain"), BOTH, 2),
    "curl_cffi": (curl_cffi, ("1.3",), 1),
    **{
        "-".join(each): (rustls(each), BOTH, 2)
        for each in fixtures("blocking")
        if each.library == "rustls"
    },
}
CASES = [(name, version) for name, (_, versions, _) in CLIENTS.items() for version in versions]


@pytest.mark.heavy
@pytest.mark.parametrize(("client", "tls_version"), CASES)
def test_client(
    client: str,
    tls_version: str,
    server: Server,
    certificate: Certificate,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make, _, connections = CLIENTS[client]
    command = make(server, certificate, tmp_path, tls_version)
    key_log, packets = tmp_path / "keys", tmp_path / "packets.pcapng"
    monkeypatch.setenv("TLS_VERSION", tls_version)
    monkeypatch.delenv("SSLKEYLOGFILE", raising=False)
    with recorded(packets, server.port):
        ran = run_under(tmp_path, *command, options=("--keylog", str(key_log)), stdin=b"go\n")
    assert ran.captured.code == 0, ran.captured.stderr
    assert len(ran.captured.exchanges) == REQUESTS
    assert "not all secrets" not in ran.captured.stderr
    assert stat.S_IMODE(key_log.stat().st_mode) == 0o600
    before = decrypted(packets, server.port)
    assert before.answers == before.finished == 0
    assert_decrypted(decrypted(packets, server.port, key_log), connections)
    count = len(key_log.read_text().splitlines())
    assert f"sslsniff: wrote {count} secret" in ran.captured.stderr


@pytest.mark.parametrize("tls_version", BOTH)
def test_server(tls_version: str, server: Server, certificate: Certificate, tmp_path: Path) -> None:
    """The watched process is the server; its client is not."""
    key_log, packets = tmp_path / "keys", tmp_path / "packets.pcapng"
    with recorded(packets, server.port), watching(server.pid, key_log):
        run(*curl(server, certificate, tmp_path, tls_version))
    assert_decrypted(decrypted(packets, server.port, key_log))


@pytest.mark.heavy
def test_grpcio_as_client_and_server(certificate: Certificate, tmp_path: Path) -> None:
    """Both know the same secrets of one connection; each writes those that it knows."""
    key_log, packets = tmp_path / "keys", tmp_path / "packets.pcapng"
    files = (certificate.certificate, certificate.key)
    with started(sys.executable, PROGRAMS / "python/grpcio_echo.py", *files) as server:
        port = int(next_line(server))
        client = PROGRAMS / "python/grpc_client.py"
        with recorded(packets, port), watching(server.pid, key_log):
            run(sys.executable, client, str(port), certificate.certificate, "10", "10")
    # The trailers of a call have a status, too, but none of HTTP.
    assert_decrypted(decrypted(packets, port, key_log), connections=2)


@pytest.mark.heavy
def test_boringssl_of_tls_12(certificate: Certificate, tmp_path: Path) -> None:
    """A server of gRPC, which refuses what curl asks once the handshake is over."""
    key_log, packets = tmp_path / "keys", tmp_path / "packets.pcapng"
    files = (certificate.certificate, certificate.key)
    with started(sys.executable, PROGRAMS / "python/grpcio_echo.py", *files) as server:
        port = int(next_line(server))
        near = Server(server.pid, port)
        with recorded(packets, port), watching(server.pid, key_log):
            asks = curl(near, certificate, tmp_path, "1.2")
            subprocess.run(asks, check=False, timeout=PATIENCE_S)
    lines = key_log.read_text().splitlines()
    assert {line.split()[0] for line in lines} == {"CLIENT_RANDOM"}
    assert decrypted(packets, port).finished == 0
    assert decrypted(packets, port, key_log).finished == 2 * len(lines)


@pytest.mark.heavy
def test_http3(certificate: Certificate, tmp_path: Path) -> None:
    """It does not read and write by functions that are probed, but has the same secrets."""
    key_log, packets = tmp_path / "keys", tmp_path / "packets.pcapng"
    files = (certificate.certificate, certificate.key)
    with started(WHEELS, PROGRAMS / "python/http3_server.py", *files) as server:
        port = int(next_line(server))
        client = (WHEELS, PROGRAMS / "python/http3_client.py", str(port), files[0], str(REQUESTS))
        with recorded(packets, port, "udp"):
            ran = run_under(tmp_path, *client, options=("--keylog", str(key_log)))
    assert ran.stdout.decode().split() == [f"/{number}" for number in range(REQUESTS)]
    assert not any("HEADERS" in each for each in quic_packets(packets, port))
    seen = quic_packets(packets, port, key_log)
    assert all("PKN" in each for each in seen)
    assert sum(each.count("HEADERS") for each in seen) == 2 * REQUESTS


@pytest.mark.heavy
def test_key_update(server: Server, certificate: Certificate, tmp_path: Path) -> None:
    """Wireshark derives the later secrets itself (RFC 8446, section 7.2)."""
    key_log, packets = tmp_path / "keys", tmp_path / "packets.pcapng"
    ask = "GET /bytes/0 HTTP/1.1\nHost: localhost\n\n"
    command = ("openssl", "s_client", "-crlf", "-alpn", "http/1.1")
    place = ("-connect", f"localhost:{server.port}", "-CAfile", certificate.certificate)
    watch = (SSLSNIFF, "--keylog", key_log, "-o", tmp_path / "lines", "--")
    with (
        recorded(packets, server.port),
        started(*watch, *command, *place, stderr=subprocess.DEVNULL) as client,
    ):
        assert client.stdin is not None
        for _ in patiently():
            if key_log.exists() and key_log.read_text().count("\n") == 5:
                break
        for _ in range(REQUESTS // 2):
            for typed in (ask, ask, "K\n"):  # K: update the key
                client.stdin.write(typed)
                client.stdin.flush()
                time.sleep(0.05)
        client.stdin.write("Q\n")
        client.stdin.flush()
        client.wait(PATIENCE_S)
    seen = decrypted(packets, server.port, key_log)
    assert_decrypted(seen)
    shown = run("tshark", "-n", "-r", packets, "-o", f"tls.keylog_file:{key_log}", "-V")
    assert shown.count("Handshake Type: Key Update (24)") >= REQUESTS // 2


def test_a_connection_that_was_there_before(
    server: Server, certificate: Certificate, tmp_path: Path
) -> None:
    """Its secrets passed before; those of the next one are seen."""
    key_log = tmp_path / "keys"
    context = ssl.create_default_context(cafile=certificate.certificate)
    with (
        socket.create_connection(("127.0.0.1", server.port)) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as early,
    ):
        with watching(server.pid, key_log):
            early.sendall(b"GET /bytes/10 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert early.recv(1 << 16)
            assert key_log.read_bytes() == b""
            run(*curl(server, certificate, tmp_path, "1.3"))
        assert len({line.split()[1] for line in key_log.read_text().splitlines()}) == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--redact",), "--keylog writes what decrypts all traffic: leave it or --redact out"),
        (("--loader", "bcc"), "--keylog works with --loader co-re only"),
    ],
)
def test_refused(options: tuple[str, ...], said: str, tmp_path: Path) -> None:
    command: Command = [
        SSLSNIFF,
        "--keylog",
        tmp_path / "keys",
        *options,
        "--pid",
        str(os.getpid()),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 2
    assert said in done.stderr
    assert not (tmp_path / "keys").exists()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("{}/one.pcapng", "--keylog and --packets both name {}/one.pcapng: name two files"),
        ("-", "--keylog and text both go to standard output: name a file"),
    ],
)
def test_a_name_for_two_outputs(name: str, said: str, tmp_path: Path, bystander: str) -> None:
    """Also with --force: neither is written over the other."""
    path = name.format(tmp_path)
    command: Command = [SSLSNIFF, "--force", "--keylog", path, "--pid", bystander]
    command += ["--packets", path if path != "-" else tmp_path / "other.pcapng"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 1
    assert done.stderr == f"sslsniff: {said.format(tmp_path)}\n"
    assert not [*tmp_path.iterdir()]


def test_a_file_that_exists(tmp_path: Path) -> None:
    key_log = tmp_path / "keys"
    key_log.write_text("mine\n")
    command: Command = [SSLSNIFF, "--keylog", key_log, "--", "true"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 1
    assert f"{key_log} exists already" in done.stderr
    assert key_log.read_text() == "mine\n"


@pytest.mark.heavy
def test_early_rustls_of_tls_13(certificate: Certificate, tmp_path: Path) -> None:
    """Why not is said, and TLS 1.2 is decrypted all the same."""
    [fixture] = [each for each in fixtures("server") if each.path.name == EARLY_RUSTLS]
    key_log, packets = tmp_path / "keys", tmp_path / "packets.pcapng"
    for tls_version, finished in (("1.3", 0), ("1.2", 2)):
        with built_server(fixture.path, certificate) as server:
            with (
                recorded(packets, server.port),
                watching(server.pid, key_log, "--force") as sniffer,
            ):
                run(*curl(server, certificate, tmp_path, tls_version))
                assert sniffer.stderr is not None
                reason = (
                    "no place of secrets of TLS 1.3 was found; before 0.22, rustls has them only"
                    " for a program that asks"
                )
                assert sniffer.stderr.readline() == (
                    f"sslsniff: not all secrets of {fixture.path}: {reason} for them\n"
                )
            assert decrypted(packets, server.port, key_log).finished == finished


@contextlib.contextmanager
def watching(pid: int, key_log: Path, *options: str | Path) -> Iterator[Process]:
    """Write the secrets of a process while the block runs."""
    watch = (SSLSNIFF, "--keylog", key_log, "-o", key_log.with_suffix(".lines"), *options)
    with started(*watch, "--pid", str(pid), stderr=subprocess.PIPE) as sniffer:
        assert sniffer.stderr is not None
        while "watching" not in sniffer.stderr.readline():
            assert sniffer.poll() is None
        yield sniffer
        time.sleep(0.2)
        sniffer.send_signal(signal.SIGINT)
        sniffer.communicate(timeout=PATIENCE_S)
        assert sniffer.returncode == 0
