"""``python -m docs.screen.pictures``: the pictures of docs/screen.md, of real traffic on loopback.

Needs root. A server in Python, and the model server of the tests, are watched while curl asks them.
"""

import asyncio
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from sslsniff.screen.app import ScreenApp
from sslsniff.screen.captured.capture_process import CaptureState
from sslsniff.screen.captured.capture_store import Store
from sslsniff.screen.contents.statistics_lines import Statistics
from tests.workload.servers import Server, python_server, self_signed

_FOLDER = Path(__file__).parent
_FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
"""Rich has a font loaded from elsewhere; any monospaced one will do."""
_SSLSNIFF = Path(sys.executable).with_name("sslsniff")
_CHAT = {
    "model": "gpt-5",
    "stream": False,
    "messages": [
        {"role": "system", "content": "Answer briefly."},
        {"role": "user", "content": "What is a flow-control window?"},
    ],
}
_PICTURES: dict[str, tuple[tuple[int, int], tuple[str, ...]]] = {
    "list": ((110, 30), ("home", *["down"] * 5, "enter", "right", "right", "right", "right")),
    "detail": ((110, 34), ("home", "enter", "z")),
    "frames": ((110, 30), ("home", *["down"] * 5, "enter", "right", "right", "right", "z")),
    "statistics": ((110, 16), ("3", "g")),
    "capture": ((110, 22), ("4",)),
    "filter": ((110, 16), ("slash", "~", "m", "space", "P", "O", "space", "~", "c")),
    "light": ((110, 30), ("home", *["down"] * 5, "enter", "d")),
}


def main() -> None:
    """Capture, and draw."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        certificate = self_signed(folder)
        with python_server(certificate) as server:
            lines, notes = _captured(server, certificate.certificate, folder)
    asyncio.run(_draw(lines, notes, server.pid))


def _captured(server: Server, certificate: Path, folder: Path) -> tuple[list[bytes], list[str]]:
    """Return the lines of a capture of the server, and what sslsniff said."""
    lines = folder / "lines"
    command = [str(_SSLSNIFF), "--pid", str(server.pid), "--json", "--frames", "-o", str(lines)]
    sniffer = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert sniffer.stderr is not None
    notes = [sniffer.stderr.readline().rstrip()]
    curl = ["curl", "-sS", "--cacert", str(certificate), "-o", "/dev/null"]
    url = server.url
    for each in (
        [*curl, "--http1.1", f"{url}/hello"],
        [*curl, "--http1.1", "-d", "user=ann&password=secret", f"{url}/form"],
        [
            *(*curl, "--http1.1", "-H", "content-type: application/json"),
            *("-H", "authorization: Bearer sk-123", "-d", json.dumps(_CHAT)),
            f"{url}/echo",
        ],
        [*curl, "--http1.1", f"{url}/status/404"],
        [*curl, "--http2", "--parallel", "--no-progress-meter", f"{url}/bytes/[1000-90000:9000]"],
    ):
        subprocess.run(each, check=True)
    time.sleep(1)  # the last response may be on its way
    sniffer.terminate()
    notes += sniffer.communicate()[1].splitlines()
    return lines.read_bytes().splitlines(keepends=True), notes


async def _draw(lines: Sequence[bytes], notes: Sequence[str], pid: int) -> None:
    for name, (size, keys) in _PICTURES.items():
        statistics = Statistics()
        store = Store(statistics.add)
        for note in notes:
            store.add_note(note)
        for line in lines:
            store.feed(line)
        command = f"sslsniff --pid {pid}"
        app = ScreenApp(store, statistics, command, lambda: CaptureState(True, None))
        async with app.run_test(size=size) as pilot:
            for key in keys:
                await pilot.press("tilde" if key == "~" else key)
                await app.workers.wait_for_complete()
            await pilot.pause(0.5)
            picture = app.export_screenshot(title="sslsniff top")
        (_FOLDER / f"{name}.svg").write_text(_FONT.sub("", picture), "utf-8")


if __name__ == "__main__":
    main()
