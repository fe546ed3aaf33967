"""``sslsniff top`` on real traffic: what is on the screen, and how it ends."""

import os
import re
import signal
import time
from pathlib import Path

import pytest

from tests.live.sniffer import LOADER, SSLSNIFF
from tests.live.test_frames import Client
from tests.workload.curl import Request, curl, results
from tests.workload.processes import run
from tests.workload.servers import Certificate, Server
from tests.workload.terminal_screen import TerminalScreen, on_terminal

_COUNT = 12


def ask(server: Server, certificate: Certificate, folder: Path, count: int = _COUNT) -> None:
    """Make requests by HTTP/2."""
    folder.mkdir()
    asked = [Request(f"/bytes/{1000 + number}") for number in range(count)]
    told = run(*curl(server.url, asked, certificate, folder, "--http2"))
    assert len(results(told, asked)) == count


def listed(screen: TerminalScreen) -> int:
    return sum(bool(re.match(r"[> ].* GET +200 ", line)) for line in screen.lines)


def child_of(screen: TerminalScreen) -> int:
    children = Path(f"/proc/{screen.process.pid}/task/{screen.process.pid}/children")
    return int(children.read_text().split()[0])


@pytest.mark.heavy
@pytest.mark.parametrize("size", [(80, 24), (200, 60)], ids="{0[0]}x{0[1]}".format)
@pytest.mark.parametrize("started", [("top",), ("--tui",)], ids="".join)
def test_a_running_server(
    started: tuple[str, ...],
    size: tuple[int, int],
    server: Server,
    certificate: Certificate,
    tmp_path: Path,
) -> None:
    command = (*started, "--pid", str(server.pid), "--loader", LOADER)
    command += ("--pcap", str(tmp_path / "all.pcapng"))
    with on_terminal(*size, SSLSNIFF, *command) as screen:
        screen.until("capture running")
        ask(server, certificate, tmp_path / "first")
        screen.until(lambda: listed(screen) == _COUNT)
        screen.press("enter")
        screen.until("process: ")
        screen.press("escape", "4")
        screen.until("watching 1 ")
        screen.press("1", "w\x15")  # \x15: Ctrl-U
        screen.until("Save 1 exchange")
        screen.until(lambda: "selection.har" not in screen.text)
        screen.press(f"{tmp_path}/saved.pcapng\r")
        screen.until(lambda: (tmp_path / "saved.pcapng").exists())
        screen.until(f"saved connections with {_COUNT} exchanges")
        screen.press("q")
        assert screen.ended() == 0
        assert screen.is_restored()
        assert f"{_COUNT} exchanges, 0 bytes lost" in screen.text.replace("\n", "")  # it may wrap
    told = run(str(SSLSNIFF), "read", str(tmp_path / "saved.pcapng"), "--json")
    assert told.count('{"type":"exchange"') == _COUNT


def test_a_stall_is_said_while_it_lasts(server: Server, certificate: Certificate) -> None:
    with on_terminal(120, 30, SSLSNIFF, "top", "--pid", str(server.pid)) as screen:
        screen.until("capture running")
        client = Client(server, certificate)
        unread = client.request("POST", "/unread", is_whole=False)
        client.upload(unread, 65_000)
        waits = client.request("POST", "/echo", is_whole=False)
        client.upload(waits, 535)
        screen.until("1 connection stalled (key 2)")
        screen.press("2")
        screen.until(f"the server does not read stream {unread} POST /unread (65,000 B")
        screen.until(
            lambda: f"stream {waits} POST /echo waits for it" in " ".join(screen.text.split())
        )
        client.socket.close()
        screen.until("!!!")
        assert "POST /unread" in screen.text
        screen.press("q")
        assert screen.ended() == 0


def test_a_command_is_started_and_watched(
    server: Server, certificate: Certificate, tmp_path: Path
) -> None:
    """What it writes does not disturb the screen; its end does not close it."""
    asked = [Request("/bytes/2000")]
    folder = tmp_path / "curl"
    folder.mkdir()
    command = curl(server.url, asked, certificate, folder, "--http1.1")
    with on_terminal(100, 30, SSLSNIFF, "top", "--loader", LOADER, "--", *command) as screen:
        screen.until("/bytes/2000")
        screen.until("capture ended")
        screen.press("4")
        screen.until("127.0.0.1")  # of what curl wrote
        screen.press("ctrl+c")
        assert screen.ended() == 0
        assert screen.is_restored()


@pytest.mark.heavy
def test_a_command_cannot_read_what_was_captured(tmp_path: Path) -> None:
    """The queue of lines is open in the capture, not in the command that it starts."""
    found = tmp_path / "files"
    script = f"for each in /proc/self/fd/*; do readlink $each; done > {found}; exit 0"
    command = ("sh", "-c", script)
    with on_terminal(100, 30, SSLSNIFF, "top", "--loader", LOADER, "--", *command) as screen:
        screen.until("capture ended")
        screen.press("q")
        assert screen.ended() == 0
    assert str(found) in found.read_text()
    assert "memfd" not in found.read_text()


@pytest.mark.heavy
def test_a_capture_that_is_killed_is_told(
    server: Server, certificate: Certificate, tmp_path: Path
) -> None:
    with on_terminal(100, 30, SSLSNIFF, "top", "--pid", str(server.pid)) as screen:
        screen.until("capture running")
        ask(server, certificate, tmp_path / "first")
        screen.until(lambda: listed(screen) == _COUNT)
        os.kill(child_of(screen), signal.SIGKILL)
        screen.until("capture failed with exit code -9")
        assert listed(screen) == _COUNT
        screen.press("q")
        screen.ended()
        assert screen.is_restored()


@pytest.mark.heavy
def test_the_capture_ends_with_a_screen_that_is_killed(
    server: Server, certificate: Certificate, tmp_path: Path
) -> None:
    with on_terminal(100, 30, SSLSNIFF, "top", "--pid", str(server.pid)) as screen:
        screen.until("capture running")
        child = child_of(screen)
        screen.process.kill()
        screen.process.wait()
        ask(server, certificate, tmp_path / "first")
        deadline = time.monotonic() + 10
        while Path(f"/proc/{child}/stat").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not Path(f"/proc/{child}").exists()


def test_an_error_at_the_start_is_left_on_the_terminal() -> None:
    """Neither the screen nor what was shown before it hides it."""
    with on_terminal(100, 30, SSLSNIFF, "top", "--pid", "4194304") as screen:
        assert screen.ended() == 1
        assert screen.is_restored()
        last_picture = screen.written.rpartition(b"\x1b[?1049l")[2]
        assert b"sslsniff: " in last_picture


def test_keys_wait_until_the_screen_is_there(server: Server) -> None:
    """They are not echoed, and do what they do later: at the start nothing reads them."""
    with on_terminal(80, 24, SSLSNIFF, "top", "--pid", str(server.pid)) as screen:
        screen.until("sslsniff starts; keys that you press wait")
        screen.press("down", "2")
        screen.until("Opened")  # the title of the list of connections
        assert b"^[[" not in screen.written
        screen.until("capture running")
        screen.press("q")
        assert screen.ended() == 0
        assert screen.is_restored()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_at_the_start_leaves_the_terminal_as_it_was(number: signal.Signals) -> None:
    with on_terminal(80, 24, SSLSNIFF, "top", "--pid", str(os.getpid())) as screen:
        screen.until("sslsniff starts")
        screen.process.send_signal(number)
        screen.ended()
        assert screen.is_restored()
