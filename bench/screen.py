"""What nginx serves while its exchanges are on a screen, beside the same as JSON lines.

Both run on a terminal of their own, as they do for people: Linux gives each terminal's programs a
share of the CPU together (man 7 sched, "The autogroup feature").
"""

import math
import re
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from bench.http_load import PROTOCOLS, paced, slowest_percent, steady, times_in
from bench.loads import own_folder
from bench.nginx import running_nginx
from bench.rows import Row
from bench.sniffer import READY, SSLSNIFF
from tests.workload.terminal_screen import TerminalScreen, on_terminal

_LOADS = 8
"""How the requests of ten connections fall together differs from load to load, and with it the
slowest 1 %, by half: so both are compared within each load, and the ratios over many loads.
"""
_TURNS = 3
"""How often each is run beside one load."""
_SETTLED_S, _MEASURED_S = 1.5, 3.0
"""How long each runs before its requests count, and how long they count."""
_RATE = 3_000
_COUNTED_S = 25
_COLUMNS, _LINES = 160, 50
_ENDED = re.compile(r"([\d,]+) exchanges, ([\d,]+) bytes lost")

Span = tuple[float, float]


def measure() -> Iterator[Row]:
    """Ask at a fixed rate, decoded into a file and shown on a screen, in alternation."""
    with own_folder() as (folder, certificate), running_nginx(folder, certificate) as nginx:
        watched = [part for pid in nginx.pids for part in ("--pid", str(pid))]
        for protocol in PROTOCOLS:
            what = f"screen, nginx, {protocol}, {_RATE:,} requests/s"
            yield _counted(what, nginx.url, protocol, watched)
            yield _compared(what, nginx.url, protocol, folder, watched)


def _counted(what: str, url: str, protocol: str, watched: list[str]) -> Row:
    """Compare how many responses there were with how many exchanges the screen has seen."""
    with on_terminal(_COLUMNS, _LINES, SSLSNIFF, "top", *watched) as screen:
        screen.until("capture running")
        with screen.unwatched():
            asked = paced(url, protocol, _RATE, _COUNTED_S).responses
        exchanges, lost = _figures(screen)
    note = f"of {asked:,}; {lost} bytes lost"
    return Row(f"{what}: exchanges not shown", asked - exchanges, "", 0, note)


def _compared(what: str, url: str, protocol: str, folder: Path, watched: list[str]) -> Row:
    """Compare the slowest 1 % of what is asked beside the screen and beside JSON lines."""
    json = ("--json", "--frames", "-o", folder / "decoded.jsonl", "--force")
    ratios, json_ms, screen_ms = [], [], []
    for number in range(_LOADS):
        log = folder / f"load-{number}"
        beside_json, beside_screen = list[Span](), list[Span]()
        with steady(url, protocol, _RATE, log):
            for _ in range(_TURNS):
                beside_json.append(_span(READY, *json, *watched))
                beside_screen.append(_span("capture running", "top", *watched))
        times = times_in(log)
        json_ms.append(_slowest(times, beside_json))
        screen_ms.append(_slowest(times, beside_screen))
        ratios.append(screen_ms[-1] / json_ms[-1])
        log.unlink()
    spread = statistics.stdev(ratios) / math.sqrt(_LOADS)
    medians = (statistics.median(each) for each in (json_ms, screen_ms))
    note = "{:.2f} ms with --json, {:.2f} ms with the screen; ".format(*medians)
    note += f"mean of {_LOADS} loads, standard error {spread:.2f}"
    return Row(f"{what}: p99", statistics.geometric_mean(ratios), "times", 1.1, note)


def _span(ready: str, *arguments: str | Path) -> Span:
    """Run sslsniff on a terminal that nobody draws; return from when until when it had settled."""
    with on_terminal(_COLUMNS, _LINES, SSLSNIFF, *arguments) as screen:
        screen.until(ready)
        with screen.unwatched():
            time.sleep(_SETTLED_S)
            began_s = time.time()
            time.sleep(_MEASURED_S)
            return began_s, time.time()


def _slowest(times: list[tuple[float, float]], spans: list[Span]) -> float:
    return slowest_percent(
        [took_ms for at_s, took_ms in times if any(low <= at_s < high for low, high in spans)]
    )


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
