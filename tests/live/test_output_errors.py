"""Outputs and captures that cannot be opened, written or read: one line, the right exit code."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.live.checks import assert_passed, seen
from tests.live.refusals import NO_PROCESS, assert_told, sniff
from tests.live.sniffer import SSLSNIFF, Captured
from tests.workload.curl import Request, curl, gets, results
from tests.workload.load import Load, parse_end
from tests.workload.mounts import apart
from tests.workload.nobody import ROOT
from tests.workload.processes import PATIENCE_S, run
from tests.workload.servers import Certificate, Server


@pytest.mark.parametrize(
    "target", [["--pid", NO_PROCESS], ["--lib", "/nonexistent.so"], ["--", "{folder}/script"]]
)
def test_an_error_leaves_no_file(target: list[str], tmp_path: Path) -> None:
    """What was there before is as it was, even where it should be overwritten."""
    there, script = tmp_path / "there", tmp_path / "script"
    there.write_text("kept\n")
    script.touch(0o755)
    outputs = ("-o", tmp_path / "new", "--pcap", there, "--force")
    done = sniff(*outputs, *(each.format(folder=tmp_path) for each in target))
    assert done.returncode == 1
    assert sorted(tmp_path.iterdir()) == [script, there]
    assert there.read_text() == "kept\n"


def test_outputs_are_refused_together(bystander: str, tmp_path: Path) -> None:
    there, new = tmp_path / "there", tmp_path / "new"
    there.write_text("kept\n")
    done = sniff("--pid", bystander, "-o", new, "--pcap", there)
    assert_told(done, "there exists already")
    done = sniff("--pid", bystander, "-o", new, "--pcap", f"{tmp_path}/./new")
    assert_told(done, "-o and --pcap both name .*new")
    assert list(tmp_path.iterdir()) == [there]


@pytest.mark.parametrize("option", ["--pcap", "-o"])
def test_outputs(option: str, bystander: str, tmp_path: Path) -> None:
    there, link = tmp_path / "there", tmp_path / "link"
    there.write_text("kept\n")
    link.symlink_to(there)
    for arguments, fact in (
        ((there,), "there exists already"),
        ((link,), "link is a symbolic link"),
        ((link, "--force"), "link is a symbolic link"),
        ((tmp_path,), "is a folder"),
        ((tmp_path / "no" / "file",), "cannot create .*: No such file or directory"),
        (("/dev/full",), "is not a regular file"),
    ):
        done = sniff("--pid", bystander, option, *arguments)
        assert_told(done, fact)
    assert there.read_text() == "kept\n"
    assert link.is_symlink()


@pytest.mark.reliability("fault", "the disk is full")
def test_disk_full(server: Server, certificate: Certificate, tmp_path: Path) -> None:
    """A file system of 128 KiB: what came before stays readable, and the program undisturbed."""
    requests = [Request("/bytes/1000") for _ in range(150)]
    small, kept = tmp_path / "small", tmp_path / "kept"
    small.mkdir()
    kept.mkdir()
    script = (
        f"mount -t tmpfs -o size=128k none {small} && {{ "
        f'"$@"; code=$?; cp {small}/* {kept}; exit $code; }}'
    )
    for name, options in (("out.pcapng", ["--pcap"]), ("out.jsonl", ["--json", "-o"])):
        command = curl(server.url, requests, certificate, tmp_path)
        sniffed = [str(SSLSNIFF), *options, str(small / name), "--", *command]
        done = subprocess.run(
            apart("sh", "-c", script, "sh", *sniffed),
            capture_output=True,
            text=True,
            timeout=2 * PATIENCE_S,
        )
        assert_told(done, f"cannot write .*{name}: No space left on device")
        assert len(results(done.stdout, requests)) == 150

    lines = (kept / "out.jsonl").read_text("utf-8").splitlines()
    nonces = [each.nonce for each in requests]
    live = [each for each in map(json.loads, lines) if each["type"] == "exchange"]
    assert [seen(each).nonce for each in live] == nonces[: len(live)]
    assert 50 < len(live) < 150

    read = sniff("read", kept / "out.pcapng", "--json")
    assert (read.returncode, read.stderr) == (0, "")
    exchanges = [
        each for each in map(json.loads, read.stdout.splitlines()) if each["type"] == "exchange"
    ]
    whole = [each for each in exchanges if each["error"] is None]
    assert [seen(each).nonce for each in whole] == nonces[: len(whole)]
    assert len(exchanges) - len(whole) <= 1
    assert 50 < len(whole) < 150


@pytest.mark.reliability("fault", "the disk is full")
@pytest.mark.parametrize("kind", ["pcap", "pcapng"])
def test_disk_full_in_a_burst(
    kind: str, load: Load, certificate: Certificate, tmp_path: Path
) -> None:
    """Plaintext goes from the ring to the file without a copy when there is no more room."""
    small, kept = tmp_path / "small", tmp_path / f"kept.{kind}"
    small.mkdir()
    file = small / f"out.{kind}"
    mount = f'mount -t tmpfs -o size=128k none {small} && {{ "$@"; code=$?; '
    script = f"{mount} cp {file} {kept}; exit $code; }}"
    with load.receiver(certificate.certificate, certificate.key) as receiver:
        command = load.sender(receiver.port, 1, (400, 16 << 10))
        done = subprocess.run(
            apart("sh", "-c", script, "sh", SSLSNIFF, "--pcap", file, "--", *command),
            capture_output=True,
            text=True,
            timeout=2 * PATIENCE_S,
        )
        assert_told(done, f"cannot write .*{file.name}: No space left on device")
        assert parse_end(done.stdout).sha256 == receiver.next().sha256
    read = sniff("read", kept, "--chunks")
    assert (read.returncode, read.stderr) == (0, "")
    chunks = [each for each in map(json.loads, read.stdout.splitlines()) if each["type"] == "chunk"]
    assert 50_000 < sum(each["data"]["size"] for each in chunks) < 128 << 10


@pytest.mark.heavy
def test_standard_output_full(server: Server, certificate: Certificate, tmp_path: Path) -> None:
    requests = gets(3)
    capture = tmp_path / "capture.pcapng"
    command = curl(server.url, requests, certificate, tmp_path)
    done = sniff("--pcap", capture, "--", *command)
    passed = results(done.stdout, requests)
    assert done.returncode == 0
    for option in ("--json", "--hexdump", "-v"):
        with Path("/dev/full").open("w") as full:
            assert_told(
                sniff("read", capture, option, stdout=full), "cannot write stdout: No space"
            )
    read = sniff("read", capture, "--json", "-o", tmp_path / "read.jsonl")
    assert read.returncode == 0
    lines = (tmp_path / "read.jsonl").read_text("utf-8").splitlines()
    captured = Captured([json.loads(line) for line in lines], read.stderr, 0)
    assert_passed(captured, passed, role="client")


@pytest.mark.heavy
def test_captures_to_read(server: Server, certificate: Certificate, tmp_path: Path) -> None:
    """Not a capture: an error. A capture that is cut off: what is before, and a warning."""
    (tmp_path / "text").write_text("no capture\n")
    (tmp_path / "empty").touch()
    for name, fact in (
        ("text", "text is not a capture file"),
        ("empty", "empty is empty"),
        ("nosuch", "cannot read .*nosuch: No such file or directory"),
        (".", "Is a directory"),
    ):
        done = sniff("read", tmp_path / name)
        assert_told(done, fact)
        assert done.stdout == ""

    requests = gets(20)
    for kind in ("pcap", "pcapng"):
        capture, cut = tmp_path / f"whole.{kind}", tmp_path / f"cut.{kind}"
        run(SSLSNIFF, "--pcap", capture, "--", *curl(server.url, requests, certificate, tmp_path))
        data = capture.read_bytes()
        cut.write_bytes(data[: len(data) // 2 + 1])
        done = sniff("read", cut, "--json")
        assert done.returncode == 0
        assert re.fullmatch(r"sslsniff: .*is cut off or damaged.*\n", done.stderr)
        lines = map(json.loads, done.stdout.splitlines())
        whole = [each for each in lines if each["type"] == "exchange" and not each["error"]]
        assert [seen(each).nonce for each in whole] == [
            each.nonce for each in requests[: len(whole)]
        ]
        assert 5 < len(whole) < 20


@pytest.mark.parametrize("command", ["list", "doctor", "--help", "--version", "read {capture}"])
@pytest.mark.parametrize(
    ("redirection", "code", "told"),
    [
        (">/dev/full", 1, "sslsniff: cannot write stdout: No space left on device: .+\n"),
        (">&-", 1, "sslsniff: there is no standard output: .+\n"),
        ("| true", 0, ""),
        (">/dev/full 2>/dev/full", 1, ""),
        (">&- 2>&-", 1, ""),
        (">/dev/null 2>&- <&-", 0, ""),
    ],
)
def test_standard_streams(
    command: str, redirection: str, code: int, told: str, server: Server
) -> None:
    """Full, closed, or read by nobody: one line where it can be told, and the right exit code."""
    if redirection.startswith(">&-") and command in {"--help", "--version"}:
        code, told = 0, "(?s).*"  # shown on standard error, where there is one
    capture = ROOT / "pcaps/http2-multiplexed.pcapng"
    script = f'"$0" {command.format(capture=capture)} {redirection}; exit "${{PIPESTATUS[0]}}"'
    done = subprocess.run(
        ["bash", "-c", script, SSLSNIFF],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
    )
    assert re.fullmatch(told, done.stderr), done.stderr
    assert done.returncode == code
