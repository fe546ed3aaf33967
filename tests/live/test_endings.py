"""An answer that is cut short: how far it came, who ended it and how, at both ends and in files."""

import sys
from pathlib import Path
from typing import Any

import pytest

from sslsniff.capture.capture import LiveCapture
from sslsniff.capture.early_files import EarlyFiles
from sslsniff.capture.scope import Scope
from sslsniff.core import events
from sslsniff.kernel.loaders.loading import Loading
from tests.live.checks import Ran, read, run_under
from tests.unit.captures import tshark_fields
from tests.workload.node import NODE
from tests.workload.ports import free_port
from tests.workload.processes import PATIENCE_S, next_line, say, started
from tests.workload.servers import Certificate, Server

CUT = Path("tests/workload/python/cut_answer.py").resolve()
NODE_SERVER = Path("tests/workload/node/cut_answer.js").resolve()
NGINX = """
daemon off; master_process off; user root; pid {folder}/pid; error_log /dev/null;
events {{ worker_connections 64; }}
http {{
    access_log off;
    server {{
        listen 127.0.0.1:{port} ssl;
        ssl_certificate {certificate.certificate};
        ssl_certificate_key {certificate.key};
        location / {{ proxy_pass http://127.0.0.1:{upstream}; }}
    }}
}}
"""

ASKS = """
import socket, ssl, sys
port, trusted = int(sys.argv[1]), ssl.create_default_context(cafile=sys.argv[2])
print(flush=True)
input()
tcp = socket.create_connection(("127.0.0.1", port))
tls = trusted.wrap_socket(tcp, server_hostname="localhost")
tls.sendall(b"GET /bytes/10 HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n")
print(flush=True)
input()
while tls.recv(65536):
    pass
tls.close()
"""


def cut(folder: Path, certificate: Certificate, how: str, *command: str | Path) -> Ran:
    """Run the program of both ends under sslsniff, which writes a capture file, too."""
    command = (sys.executable, CUT, certificate.certificate, certificate.key, how, *command)
    ran = run_under(folder, *command, options=["--pcap", str(folder / "cut.pcapng")])
    assert ran.stdout == b"2900\n"
    return ran


def endings(shown: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return how the exchange ended, as each end says, with the text of its line.

    The text names the process of the other end, if that ended it; here it is taken out.
    """
    by_role = {each["role"]: each["ending"] for each in shown}
    assert len(shown) == len(by_role) == 2
    processes = {each["role"]: {"pid": each["pid"], "comm": each["comm"]} for each in shown}
    for role, each in by_role.items():
        by = each["ended_by"]
        assert each["ended_by_process"] == processes[by]
        before = each["text"]
        if by != role:
            name = f" ({processes[by]['comm']}[{processes[by]['pid']}])"
            each["text"] = before.replace(f" the {by}{name}", f" the {by}")
            assert each["text"] != before
    for each in by_role.values():
        assert (each["part"], each["received_bytes"]) == ("response", 2900)
        assert each["announced_bytes"] == 5507
    return by_role


def assert_file_agrees(folder: Path, ends: dict[str, dict[str, Any]]) -> None:
    """The file has the same endings; tshark sees a FIN or reset of the side that ended it."""
    capture = folder / "cut.pcapng"
    assert endings(read(capture).exchanges) == ends
    ports = {each["server"]["port"] for each in read(capture).exchanges}
    fields = ("tcp.stream", "tcp.srcport", "tcp.flags.reset", "tls.alert_message.desc")
    only = "tcp.flags.fin == 1 || tcp.flags.reset == 1 || tls.alert_message"
    first: dict[str, list[str]] = {}
    for stream, *packet in tshark_fields(capture, *fields, only=only):
        first.setdefault(stream, packet)
    assert len(first) == 2
    [end] = {(each["ended_by"], each["how"]) for each in ends.values()} or [("", "")]
    for port, reset, alert in first.values():
        sender = "server" if int(port) in ports else "client"
        assert (sender, reset) == (end[0], "1" if end[1] == "rst" else "0")
        assert alert == ("0" if end[1] == "close_notify" else "")


@pytest.mark.parametrize(
    ("how", "by", "text"),
    [
        ("fin", "server", "closed by the server without close_notify"),
        ("notify", "server", "closed by the server with close_notify"),
        ("rst", "server", "reset by the server"),
        ("client", "client", "closed by the client without close_notify"),
        ("late", "server", "closed by the server without close_notify"),
    ],
)
def test_both_ends_agree(
    certificate: Certificate, tmp_path: Path, how: str, by: str, text: str
) -> None:
    ends = endings(cut(tmp_path, certificate, how).captured.exchanges)
    for each in ends.values():
        assert each["text"] == f"2,900 of 5,507 B, {text}"
        assert each["ended_by"] == by
    assert_file_agrees(tmp_path, ends)


def test_the_process_of_the_server_ends(certificate: Certificate, tmp_path: Path) -> None:
    ends = endings(cut(tmp_path, certificate, "exit").captured.exchanges)
    before = "2,900 of 5,507 B, closed by the server"
    assert ends["server"]["text"] == f"{before}, whose process ended"
    assert ends["client"]["text"] == f"{before} without close_notify"


@pytest.mark.heavy
def test_node_destroys_a_socket(certificate: Certificate, tmp_path: Path) -> None:
    port = str(free_port())
    server = (NODE, NODE_SERVER, certificate.certificate, certificate.key, port)
    ends = endings(cut(tmp_path, certificate, port, *server).captured.exchanges)
    assert ends["client"]["text"] == "2,900 of 5,507 B, closed by the server without close_notify"
    # Its library's object is freed at some time later, or never.
    assert ends["server"]["text"].startswith("2,900 of 5,507 B, closed by the server")
    assert "process" not in ends["server"]["text"]
    assert_file_agrees(tmp_path, ends)


def test_the_upstream_of_nginx_ends(certificate: Certificate, tmp_path: Path) -> None:
    port, upstream = free_port(), free_port()
    configuration = tmp_path / "nginx.conf"
    values = {"folder": tmp_path, "port": port, "upstream": upstream, "certificate": certificate}
    configuration.write_text(NGINX.format(**values))
    server = ("/usr/sbin/nginx", "-c", configuration)
    ends = endings(cut(tmp_path, certificate, f"{port}:{upstream}", *server).captured.exchanges)
    text = "2,900 of 5,507 B, closed by the server with close_notify"
    assert {each["text"] for each in ends.values()} == {text}


def test_what_ends_when_the_capture_was_stopped(
    server: Server, certificate: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last bytes were not seen, so neither is its end: it was open when the capture ended."""
    ring_bytes = 4 << 20
    with started(sys.executable, "-c", ASKS, str(server.port), certificate.certificate) as client:
        next_line(client)
        files = EarlyFiles(Scope(pids=(client.pid,)))
        load = Loading("auto", ring_bytes).result
        capture = LiveCapture(
            files, load, ring_bytes=ring_bytes, call_limit_bytes=1 << 16, note=lambda _: None
        )
        with capture:
            say(client, "ask")
            next_line(client)
            stop = capture._tables.stop

            def stop_before_the_end() -> None:
                stop()
                say(client, "read")
                client.wait(PATIENCE_S)

            monkeypatch.setattr(capture._tables, "stop", stop_before_the_end)
            told = [type(each) for each in capture.finish()]
    assert told.count(events.Opened) == 1
    assert not {events.Ended, events.Closed, events.Exited}.intersection(told)
