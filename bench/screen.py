"""What nginx serves while its exchanges are on a screen, beside the same as JSON lines.

Both run on a terminal of their own, as they do for people: Linux gives each terminal's programs a
share of the CPU together (man 7 sched, "The autogroup feature").
"""

import re
import statistics
from collections.abc import Iterator
from pathlib import Path

from bench.http_load import PROTOCOLS, Served, paced
from bench.loads import own_folder
from bench.nginx import running_nginx
from bench.rows import Row
from bench.sniffer import READY, SSLSNIFF
from tests.workload.terminal_screen import TerminalScreen, on_terminal

_ROUNDS = 12
"""The slowest 1 % of a run take from 1 to 3 ms: fewer runs tell nothing."""
_RATE = 3_000
_SECONDS = 5
_COLUMNS, _LINES = 160, 50
_ENDED = re.compile(r"([\d,]+) exchanges, ([\d,]+) bytes lost")


def measure() -> Iterator[Row]:
    """Ask at a fixed rate, decoded into a file and shown on a screen, in alternation."""
    with own_folder() as (folder, certificate), running_nginx(folder, certificate) as nginx:
        watched = [part for pid in nginx.pids for part in ("--pid", str(pid))]
        for protocol in PROTOCOLS:
            yield from _compared(nginx.url, protocol, folder, watched)


def _compared(url: str, protocol: str, folder: Path, watched: list[str]) -> Iterator[Row]:
    decoded, shown = list[Served](), list[Served]()
    missing = lost = 0
    for _ in range(_ROUNDS):
        output: list[str | Path] = ["-o", folder / "decoded.jsonl", "--force"]
        with on_terminal(
            _COLUMNS, _LINES, SSLSNIFF, "--json", "--frames", *output, *watched
        ) as screen:
            screen.until(READY)
            decoded.append(_paced(screen, url, protocol))
        with on_terminal(_COLUMNS, _LINES, SSLSNIFF, "top", *watched) as screen:
            screen.until("capture running")
            shown.append(_paced(screen, url, protocol))
            exchanges, lost_now = _figures(screen)
        missing += shown[-1].responses - exchanges
        lost += lost_now
    what = f"screen, nginx, {protocol}, {_RATE:,} requests/s"
    asked = sum(each.responses for each in shown)
    yield Row(f"{what}: exchanges not shown", missing, "", 0, f"of {asked:,}; {lost} bytes lost")
    json_ms, screen_ms = (
        statistics.median(each.p99_ms for each in part) for part in (decoded, shown)
    )
    note = f"{json_ms:.2f} ms with --json, {screen_ms:.2f} ms with the screen"
    yield Row(f"{what}: p99", screen_ms / json_ms, "times", 1.1, note)


def _paced(screen: TerminalScreen, url: str, protocol: str) -> Served:
    """Ask, while nobody draws what the program writes."""
    with screen.unwatched():
        return paced(url, protocol, _RATE, _SECONDS)


def _figures(screen: TerminalScreen) -> tuple[int, int]:
    """End the screen; return how many exchanges it has seen, and how many bytes were lost."""
    screen.press("q")
    if screen.ended():
        raise RuntimeError(screen.text)
    found = _ENDED.search(screen.written.decode(errors="replace"))
    if found is None:
        raise RuntimeError(screen.text)
    exchanges, lost = (int(each.replace(",", "")) for each in found.groups())
    return exchanges, lost
