"""Shows on standard error how far a capture file was read, once that takes some time."""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from sslsniff.core.errors import grouped
from sslsniff.destinations.options import OUTPUT
from sslsniff.outputs.lines.options import QUIET
from sslsniff.settings.asked import Asked

if TYPE_CHECKING:
    from rich.progress import Progress

_SHOWN_AFTER_S, _REDRAWN_AFTER_S = 2.0, 0.25


class ReadSoFar(NamedTuple):
    """``read_bytes`` of ``all_bytes`` of the file were read, and had ``exchanges``."""

    read_bytes: int
    all_bytes: int
    exchanges: int


@contextlib.contextmanager
def progress_bar(asked: Asked, read_so_far: Callable[[], ReadSoFar | None]) -> Iterator[None]:
    """Show a bar during this context, where standard error is a terminal, and no lines go to one.

    ``read_so_far`` returns None for a pipe, which has no known size.
    """
    shows_lines = not asked[OUTPUT] and not asked[QUIET] and os.isatty(1)
    if shows_lines or not os.isatty(2):
        yield
        return
    is_over = threading.Event()
    # In a thread of its own: a long part of a file may have nothing for sinks.
    thread = threading.Thread(target=_show, args=(read_so_far, is_over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _show(read_so_far: Callable[[], ReadSoFar | None], is_over: threading.Event) -> None:
    if is_over.wait(_SHOWN_AFTER_S) or read_so_far() is None:
        return
    with _bar() as bar:
        task = bar.add_task("")
        while not is_over.wait(_REDRAWN_AFTER_S):
            now = read_so_far()
            if now is not None:
                what = grouped(now.exchanges, "exchange")
                bar.update(task, completed=now.read_bytes, total=now.all_bytes, description=what)


def _bar() -> "Progress":
    """Return a bar with the percentage, the speed, the time that is left, and the exchanges."""
    from rich import progress  # 40 ms, which short files need not wait for
    from rich.console import Console

    return progress.Progress(
        progress.TaskProgressColumn(),
        progress.BarColumn(),
        progress.TransferSpeedColumn(),
        progress.TimeRemainingColumn(),
        progress.TextColumn("{task.description}"),
        console=Console(stderr=True),
        transient=True,
    )
