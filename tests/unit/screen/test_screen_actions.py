"""What keys of the screen do with exchanges: mark, save, copy, open elsewhere, blank secrets."""

import asyncio
import json
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.unit.screen.keyboard import SSLSNIFF, Keyboard, Play


@pytest.mark.heavy
def test_marks_and_what_is_saved(
    play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    async def script(keyboard: Keyboard) -> None:
        await keyboard.press("home", "m", "m")
        assert "2 marked" in keyboard.text
        assert keyboard.cursor == 3
        await keyboard.press("up", "m")
        assert "1 marked" in keyboard.text
        for name in ("a.json", "a.har", "a.pcapng"):
            await keyboard.press("w", "ctrl+u")
            await keyboard.type("wrong.xyz")
            await keyboard.press("enter")
            assert "does not say its form" in keyboard.text
            await keyboard.press("ctrl+u")
            await keyboard.type(name)
            await keyboard.press("enter")
            assert (tmp_path / name).exists(), keyboard.text
        await keyboard.press("w", "ctrl+u")
        await keyboard.type("a.har")
        await keyboard.press("enter")
        assert "a.har exists already" in keyboard.text
        await keyboard.press("escape", "M")
        assert "8 marked" in keyboard.text
        await keyboard.press("u")
        assert "marked" not in keyboard.text

    play(script)
    [saved] = map(json.loads, (tmp_path / "a.json").read_text().splitlines())
    assert saved["request"]["target"] == "/bytes/1000"
    [entry] = json.loads((tmp_path / "a.har").read_text())["log"]["entries"]
    assert entry["request"]["url"] == "https://localhost:38697/bytes/1000"
    assert entry["response"]["content"]["size"] == 1000
    command: list[str | Path] = [SSLSNIFF, "read", tmp_path / "a.pcapng", "--json"]
    read = subprocess.run(command, capture_output=True, check=True).stdout
    assert read.count(b'{"type":"exchange"') == 8  # its whole connection
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def test_curl(play: Play) -> None:
    copied = []

    async def script(keyboard: Keyboard) -> None:
        await keyboard.press("home", "c")
        copied.append(keyboard.app.clipboard)
        assert "copied: curl" in keyboard.text

    play(script)
    program, *arguments = shlex.split(copied[0])
    assert program == "curl"
    assert arguments == [
        *("--http2", "-H", "user-agent: curl/7.88.1", "-H", "accept: */*"),
        "https://localhost:38697/bytes/1000",
    ]


@pytest.mark.heavy
def test_wireshark(play: Play, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A program of this name gets a capture that can be read."""
    program = tmp_path / "wireshark"
    program.write_text(f'#!/bin/sh\ncp "$1" {tmp_path}/got.pcapng; touch {tmp_path}/done\n')
    program.chmod(0o755)

    async def script(keyboard: Keyboard) -> None:
        monkeypatch.setenv("PATH", "/nowhere")
        await keyboard.press("W")
        assert "wireshark is not installed here" in keyboard.text
        monkeypatch.setenv("PATH", f"{tmp_path}:{shutil.os.defpath}")  # type: ignore[attr-defined]
        await keyboard.press("W")
        assert "opened in Wireshark: " in keyboard.text
        for _ in range(100):
            if (tmp_path / "done").exists():
                return
            await asyncio.sleep(0.05)

    play(script)
    command: list[str | Path] = [SSLSNIFF, "read", tmp_path / "got.pcapng", "--json"]
    read = subprocess.run(command, capture_output=True, check=True).stdout
    assert read.count(b'{"type":"exchange"') == 8


@pytest.mark.heavy
def test_redaction(play: Play) -> None:
    from tests.unit.exchanges import connection, exchange, request, response
    from tests.unit.screen.captured_lines import written

    secret = "s3cret-value"
    asked = request(
        "POST",
        f"/login?token={secret}",
        [("authorization", f"Bearer {secret}"), ("content-type", "application/json")],
        f'{{"password": "{secret}", "name": "ann"}}'.encode(),
    )
    shown = exchange(asked, response(200, [("set-cookie", f"id={secret}")]), connection(99))
    shown.started_ns += 10**18
    line = written(lambda sink: sink.exchange(shown))

    async def script(keyboard: Keyboard) -> None:
        await keyboard.press("end", "enter", "z")
        assert keyboard.text.count(secret) >= 4
        await keyboard.press("r")
        assert secret not in keyboard.text
        assert '"name": "ann"' in keyboard.text
        assert "redacted" in keyboard.text
        for _ in range(5):
            await keyboard.press("right")
            assert secret not in keyboard.text
        await keyboard.press("c")
        assert secret not in keyboard.app.clipboard
        await keyboard.press("right", "r")
        assert secret in keyboard.text

    play(script, more=(line,))
