"""Packets with their secrets: tshark opens the file decrypted, and nothing else is in it."""

import contextlib
import select
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.checks import run_under
from tests.live.late import patiently
from tests.live.secrets.test_keylog import (
    REQUESTS,
    Command,
    assert_decrypted,
    curl,
    watching,
    wget,
)
from tests.live.sniffer import SSLSNIFF
from tests.live.stripped.test_boringssl import WHEELS
from tests.workload.processes import PATIENCE_S, PROGRAMS, next_line, run, started
from tests.workload.recorded import decrypted, quic_packets
from tests.workload.servers import Certificate, Server


def streams(packets: Path) -> set[str]:
    """Return the TCP connections in a file."""
    shown = run("tshark", "-n", "-r", packets, "-T", "fields", "-e", "tcp.stream")
    return {*shown.split()}


@pytest.mark.heavy
@pytest.mark.parametrize("tls_version", ["1.2", "1.3"])
@pytest.mark.parametrize("make", [curl, wget])
def test_only_the_watched_connection(
    make: object, tls_version: str, server: Server, certificate: Certificate, tmp_path: Path
) -> None:
    """Another client asks the same server at the same time."""
    assert callable(make)
    packets = tmp_path / "packets.pcapng"
    command = make(server, certificate, tmp_path, tls_version)
    other = [str(each) for each in curl(server, certificate, tmp_path, tls_version)]
    with started("sh", "-c", 'while :; do "$@"; done', "sh", *other):
        ran = run_under(tmp_path, *command, options=("--packets", str(packets)))
    assert len(ran.captured.exchanges) == REQUESTS
    assert_decrypted(decrypted(packets, server.port))
    assert streams(packets) == {"0"}
    count = len(run("tshark", "-n", "-r", packets).splitlines())
    assert f"sslsniff: wrote {count} packets to {packets}\n" in ran.captured.stderr
    assert packets.stat().st_mode & 0o777 == 0o600
    first = run("tshark", "-n", "-r", packets, "-c", "1", "-T", "fields", "-e", "tcp.flags.syn")
    assert first.strip() in {"1", "True"}


def test_while_it_runs(server: Server, certificate: Certificate, tmp_path: Path) -> None:
    """Packets are written two seconds late, with both files beside each other."""
    packets, key_log = tmp_path / "packets.pcapng", tmp_path / "keys"
    with watching(server.pid, key_log, "--packets", packets):
        run(*curl(server, certificate, tmp_path, "1.3"))
        for _ in patiently():
            if packets.stat().st_size > 30_000:
                break
        time.sleep(0.2)
        assert_decrypted(decrypted(packets, server.port))
        run(*curl(server, certificate, tmp_path, "1.2"))
    seen = decrypted(packets, server.port)
    assert (seen.records, seen.answers, seen.finished) == (seen.readable, 2 * REQUESTS, 4)
    assert streams(packets) == {"0", "1"}


@pytest.mark.heavy
def test_a_handshake_of_three_seconds(
    server: Server, certificate: Certificate, tmp_path: Path
) -> None:
    """Its packets wait longer than others; it is whole, with its SYN."""
    packets = tmp_path / "packets.pcapng"
    with slow_proxy(server.port) as port:
        near = Server(server.pid, port)
        command = curl(near, certificate, tmp_path, "1.3")
        ran = run_under(tmp_path, *command, options=("--packets", str(packets)))
    assert len(ran.captured.exchanges) == REQUESTS
    # From curl to the proxy, and from there on to the server: two records of one connection.
    assert streams(packets) == {"0", "1"}
    seen = decrypted(packets, port)
    assert (seen.records, seen.answers, seen.finished) == (seen.readable, 2 * REQUESTS, 4)


@contextlib.contextmanager
def slow_proxy(port: int) -> Iterator[int]:
    """Pass one connection on to a port; the first answer takes three seconds."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        near, _ = listener.accept()
        far = socket.create_connection(("127.0.0.1", port))
        ends = {near: far, far: near}
        delay_s = 3.0
        while True:
            for each in select.select([*ends], [], [])[0]:
                data = each.recv(1 << 16)
                if each is far:
                    time.sleep(delay_s)
                    delay_s = 0
                if not data:
                    near.close()
                    far.close()
                    return
                ends[each].sendall(data)

    thread = threading.Thread(target=serve)
    thread.start()
    yield listener.getsockname()[1]
    thread.join(PATIENCE_S)
    listener.close()


@pytest.mark.heavy
def test_http3(certificate: Certificate, tmp_path: Path) -> None:
    packets = tmp_path / "packets.pcapng"
    files = (certificate.certificate, certificate.key)
    with started(WHEELS, PROGRAMS / "python/http3_server.py", *files) as server:
        port = int(next_line(server))
        client = (WHEELS, PROGRAMS / "python/http3_client.py", str(port), files[0], str(REQUESTS))
        run_under(tmp_path, *client, options=("--packets", str(packets)))
    seen = quic_packets(packets, port)
    assert all("PKN" in each for each in seen)
    assert sum(each.count("HEADERS") for each in seen) == 2 * REQUESTS


@pytest.mark.parametrize(
    ("name", "before", "said"),
    [
        ("packets.pcap", (), "packets with their secrets are a pcapng: name it FILE.pcapng"),
        (
            "packets.pcapng",
            ("setpriv", "--bounding-set", "-net_raw", "--inh-caps", "-net_raw"),
            "packets need CAP_NET_RAW: root has not all rights here, as in a container: add them"
            " (docker run --cap-add NET_RAW)",
        ),
    ],
)
def test_refused(name: str, before: tuple[str, ...], said: str, tmp_path: Path) -> None:
    command: Command = [*before, SSLSNIFF, "--packets", tmp_path / name, "--", "true"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 1
    assert done.stderr == f"sslsniff: {said}\n"
    assert not (tmp_path / name).exists()


def test_another_network_namespace(tmp_path: Path) -> None:
    """It is said, with what helps."""
    packets = tmp_path / "packets.pcapng"
    with started("unshare", "--net", "sleep", "60") as process:
        pid = str(process.pid)
        for _ in patiently():
            if Path(f"/proc/{pid}/comm").read_text() == "sleep\n":
                break
        watch: Command = [SSLSNIFF, "--packets", packets, "--pid", pid]
        with subprocess.Popen(watch, stderr=subprocess.PIPE, text=True) as sniffer:
            assert sniffer.stderr is not None
            line = sniffer.stderr.readline()
            sniffer.terminate()
            sniffer.communicate(timeout=PATIENCE_S)
    assert line == (
        f"sslsniff: packets of process {pid} are not recorded: it is in another network namespace;"
        f" start sslsniff by nsenter --net --target {pid}\n"
    )
