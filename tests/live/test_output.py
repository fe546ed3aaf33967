"""What users see: lines, headers, bodies, frames, bytes; and who may read the files."""

import json
import os
import re
import stat
import subprocess
from pathlib import Path

from tests.live.sniffer import SSLSNIFF, divided
from tests.workload.curl import Request, curl, results
from tests.workload.processes import PATIENCE_S, run
from tests.workload.servers import Certificate, Server

NOBODY = 65534


def test_one_capture_in_all_forms(server: Server, certificate: Certificate, tmp_path: Path) -> None:
    """What is written live is what ``read`` makes of the capture taken beside it."""
    requests = [Request("/first?a=1"), Request("/echo", "POST", b'{"name": "value"}')]
    capture, lines = tmp_path / "capture.pcapng", tmp_path / "lines.txt"
    command = curl(server.url, requests, certificate, tmp_path, "--http2")
    run(SSLSNIFF, "--pcap", capture, "--print", "-o", lines, "--", *command)

    for file in (capture, lines):
        status = file.stat()
        assert stat.S_IMODE(status.st_mode) == 0o600
    shown = divided(lines.read_text("utf-8"))[0].splitlines()
    *told, figures = shown
    for line, request, stream, size in zip(told, requests, (1, 3), (22, 17), strict=True):
        fields = re.split("  +", line)
        assert re.fullmatch(r"\d\d:\d\d:\d\d\.\d{3}", fields[0])
        assert re.fullmatch(r"curl\[\d+\]", fields[1])
        url = f"https://localhost:{server.port}{request.target}"
        place = f"127.0.0.1:{server.port}"
        assert fields[2:6] == [place, f"http/2#{stream}", request.method, "200"]
        assert fields[7:] == [f"{size} B", url]
    assert re.fullmatch(r"2 exchanges, 1 connection, (\d+) B of .*, 0 bytes lost", figures)
    assert run(SSLSNIFF, "read", capture).splitlines() == shown

    verbose = run(SSLSNIFF, "read", capture, "-vv").splitlines()
    assert [line for line in verbose if not line.startswith("  ")] == shown
    assert verbose.count("  > POST /echo") == 1
    assert verbose.count(f"  > x-nonce: {requests[1].nonce}") == 1
    assert verbose.count("  < 200") == 2
    assert verbose.count("  < hello from /first?a=1") == 1
    assert verbose.count('  >   "name": "value"') == verbose.count('  <   "name": "value"') == 1

    frames = run(SSLSNIFF, "read", capture, "--frames")
    assert len(re.findall(r"-> #[13] HEADERS ", frames)) == 2
    assert len(re.findall(r"<- #[13] HEADERS ", frames)) == 2

    dump = run(SSLSNIFF, "read", capture, "--hexdump")
    rows = re.findall(r"^  [0-9a-f]{8}  ((?:[0-9a-f]{2} )+)", dump, re.MULTILINE)
    data = b"".join(map(bytes.fromhex, rows))
    assert data.count(b"hello from /first?a=1") == 1
    assert data.count(b'{"name": "value"}') == 2
    assert f" {len(data)} B of plaintext" in figures


def test_files_belong_to_who_called_sudo(
    server: Server, certificate: Certificate, tmp_path: Path
) -> None:
    capture, lines = tmp_path / "capture.pcapng", tmp_path / "lines.jsonl"
    command = curl(server.url, [Request("/mine")], certificate, tmp_path)
    caller = {"SUDO_UID": str(NOBODY), "SUDO_GID": str(NOBODY)}
    run(SSLSNIFF, "--pcap", capture, "--json", "-o", lines, "--", *command, **caller)
    for file in (capture, lines):
        status = file.stat()
        assert (status.st_uid, status.st_gid) == (NOBODY, NOBODY)
        assert stat.S_IMODE(status.st_mode) == 0o600
    assert '"target":"/mine"' in lines.read_text("utf-8")


def test_named_pipe(server: Server, certificate: Certificate, tmp_path: Path) -> None:
    """A capture goes through a pipe to tshark, which reads while it comes."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    fields = ("-T", "fields", "-e", "http2.headers.path", "-Y", "http2.headers.path")
    with subprocess.Popen(
        ["tshark", "-i", pipe, "-l", *fields],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as tshark:
        requests = [Request("/one"), Request("/two")]
        command = curl(server.url, requests, certificate, tmp_path, "--http2")
        assert len(results(run(SSLSNIFF, "--pcap", pipe, "--", *command), requests)) == 2
        stdout, _ = tshark.communicate(timeout=PATIENCE_S)
    assert stdout.split() == ["/one", "/two"]


def test_har(server: Server, certificate: Certificate, tmp_path: Path) -> None:
    """An archive has the exchanges that the filter lets through."""
    archive = tmp_path / "a.har"
    requests = [Request("/first"), Request("/second?a=1"), Request("/third")]
    command = curl(server.url, requests, certificate, tmp_path, "--http2")
    output = run(SSLSNIFF, "~u second|third", "--har", archive, "--", *command)
    assert len(results(output, requests)) == 3
    entries = json.loads(archive.read_text("utf-8"))["log"]["entries"]
    seen = [(entry["request"]["url"], entry["response"]["status"]) for entry in entries]
    assert sorted(seen) == [(f"{server.url}/second?a=1", 200), (f"{server.url}/third", 200)]
    for entry in entries:
        assert entry["_process"]["comm"] == "curl"
        assert entry["response"]["content"]["text"].startswith("hello from /")
        assert entry["time"] > 0
