"""The default text while it comes: unknown protocols, and exchanges that are still open."""

import contextlib
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.late import patiently
from tests.live.sniffer import READY, SSLSNIFF
from tests.live.test_openssl_cli import s_server
from tests.workload.processes import PATIENCE_S, Process, next_line, run, say, started, until_said
from tests.workload.servers import Certificate


@contextlib.contextmanager
def s_client(port: int) -> Iterator[Process]:
    """Run openssl s_client, connected; what is written to it passes as it is."""
    command = ("openssl", "s_client", "-quiet", "-connect", f"127.0.0.1:{port}")
    with started(*command, stderr=subprocess.DEVNULL) as process:
        yield process


@contextlib.contextmanager
def showing(folder: Path, *arguments: str) -> Iterator[tuple[Process, Path, Path]]:
    """Run sslsniff, its text and errors going to files, until its probes are placed."""
    lines, errors = folder / "lines.txt", folder / "errors.txt"
    with (
        errors.open("w") as stderr,
        lines.open("w") as stdout,
        subprocess.Popen([SSLSNIFF, *arguments], stdout=stdout, stderr=stderr, text=True) as shown,
    ):
        try:
            wait_for(errors, READY)
            yield shown, lines, errors
        finally:
            shown.kill()


def wait_for(file: Path, what: str) -> str:
    """Return what is in ``file`` once ``what``, a pattern, is."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if re.search(what, content := file.read_text("utf-8")):
            return content
        time.sleep(0.02)
    raise TimeoutError(f"no {what} in:\n{file.read_text('utf-8')[:2000]}")


def ping(client: Process, line: str) -> None:
    """Send a line; wait for the answer, which is the line reversed."""
    say(client, line)
    assert next_line(client) == line[::-1]


@pytest.mark.parametrize("count", [1, 3000])
def test_an_unknown_protocol(count: int, certificate: Certificate, tmp_path: Path) -> None:
    """It is told after a second though nothing more comes, in one line, with its sum at the end."""
    capture = tmp_path / "capture.pcapng"
    with (
        s_server(certificate, tmp_path, "-rev") as (_, port),
        s_client(port) as client,
        showing(tmp_path, "--pid", str(client.pid), "--pcap", str(capture), "--print") as sniffer,
    ):
        shown, lines, _ = sniffer
        for number in range(count):
            ping(client, f"+PING\x1b[{number:020}")
        begun = wait_for(lines, "not decoded")
        assert client.poll() is None
        client.terminate()
        assert shown.wait(PATIENCE_S) == 0

    size = 28 * count
    assert size == len("+PING\x1b[" + 20 * "0" + "\n") * count
    where = rf"\d\d:\d\d:\d\d\.\d{{3}}  openssl\[{client.pid}\] +127\.0\.0\.1:{port} *"
    first = rf"{where}  bytes from the client not decoded: unknown protocol\n  \+PING\\x1b\[0{{8}}"
    text = lines.read_text("utf-8")
    assert re.match(first, begun)
    assert text.startswith(begun)
    assert text.count("unknown protocol") == 2
    [total] = re.findall(rf"{where}  in all (.*) not decoded: unknown protocol\n", text)
    amount = f"{size} B" if count == 1 else f"{size / 1000:.1f} kB"
    assert total == f"{amount} from the client, {amount} from the server"

    assert run(SSLSNIFF, "read", capture) == text


def test_open_exchanges_are_shown_on_demand(certificate: Certificate, tmp_path: Path) -> None:
    with (
        s_server(certificate, tmp_path) as (server, port),
        s_client(port) as client,
        showing(tmp_path, "--pid", str(client.pid), "--json") as (shown, lines, errors),
    ):
        shown.send_signal(signal.SIGUSR1)
        wait_for(errors, "sslsniff: open exchanges: 0\n")

        say(client, "GET /stream HTTP/1.1\nHost: the\x07re\n")
        wait_for(lines, '"opened"')
        time.sleep(1.0)
        shown.send_signal(signal.SIGUSR1)
        waiting = wait_for(errors, "open: .*\n")

        say(server, "HTTP/1.1 200 OK\nContent-Length: 1000\n\nhello")
        until_said(client, "hello")
        for _ in patiently():  # it may get the signal before what the client has read
            shown.send_signal(signal.SIGQUIT)
            answered = errors.read_text("utf-8")
            if re.search("open: .* 200 .*\n", answered):
                break

        shown.send_signal(signal.SIGINT)
        assert shown.wait(PATIENCE_S) == 0
    first, *others, second = re.findall("open: (.*)", answered)
    assert first in waiting
    statuses = [re.split("  +", line)[5] for line in others]
    assert set(statuses) <= {"-", "200"}
    assert statuses == sorted(statuses)  # once answered, it stays so
    for line, status, size in ((first, "-", "0 B so far"), (second, "200", "6 B so far")):
        fields = re.split("  +", line)
        assert fields[1:3] == [f"openssl[{client.pid}]", f"127.0.0.1:{port}"]
        assert fields[3:6] == ["http/1.1", "GET", status]
        assert 1.0 <= float(fields[6].removesuffix(" ms").removesuffix(" s")) < 10_000
        assert fields[7:] == [size, r"https://the\x07re/stream"]
    assert lines.read_text("utf-8").count('"error":"capture ended"') == 1
