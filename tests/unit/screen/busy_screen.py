"""A screen that another process feeds, and that takes the time of each key.

``python -m tests.unit.screen.busy_screen COUNT RATE TIMES``: once there are COUNT exchanges, RATE
new ones come a second. At the end, TIMES gets a line for each key: its name, the milliseconds until
the screen was drawn with its effect, by the clock and of the thread's CPU, and those that a fixed
loop took then: the speed of a machine may be another a moment later. Then come the memory in MB and
how many exchanges had ended.
"""

import subprocess
import sys
import threading
import time
from pathlib import Path

from textual import events

from sslsniff.screen.app import ScreenApp
from sslsniff.screen.captured.capture_process import CaptureState
from sslsniff.screen.captured.capture_store import Store
from sslsniff.screen.contents.statistics_lines import Statistics


def loop_ms() -> float:
    """Return the CPU time that a fixed loop takes."""
    used_s = time.thread_time()
    for _ in range(100_000):
        pass
    return 1000 * (time.thread_time() - used_s)


class TimedScreen(ScreenApp):
    """Takes the time from when a key was read until all that it asks for is drawn."""

    times: list[tuple[str, float, float, float]]

    async def on_event(self, event: events.Event) -> None:
        await super().on_event(event)
        if isinstance(event, events.Key):
            key, read_at, used_s = event.key, event.time, time.thread_time()

            def drawn() -> None:
                took_s, cpu_s = time.monotonic() - read_at, time.thread_time() - used_s
                self.times.append((key, 1000 * took_s, 1000 * cpu_s, loop_ms()))

            # It has the key in its queue now, so this comes after what the key does.
            handler = self.screen.focused or self.screen
            handler.call_later(lambda: self.call_after_refresh(drawn))


def most_memory_kb() -> int:
    """Return the most memory that this program had; getrusage also counts that of its parent."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))


def main(count: str, rate: str, times: str) -> None:
    """Show what captured_lines writes, once there are COUNT exchanges."""
    statistics = Statistics()
    store = Store(statistics.add)
    writer = subprocess.Popen(
        [sys.executable, "-m", "tests.unit.screen.captured_lines", count, rate],
        stdout=subprocess.PIPE,
    )
    assert writer.stdout is not None
    lines = writer.stdout
    for _ in range(int(count)):
        store.feed(lines.readline())

    def read() -> None:
        for line in lines:
            store.feed(line)

    threading.Thread(target=read, daemon=True).start()
    try:
        app = TimedScreen(store, statistics, "busy", lambda: CaptureState(True, None))
        app.times = []
        app.run()
    finally:
        writer.kill()
        writer.wait()
    memory = most_memory_kb() / 1000
    shown = [f"{key} {took:.1f} {used:.1f} {loop:.3f}" for key, took, used, loop in app.times]
    Path(times).write_text("\n".join([*shown, f"memory {memory:.0f}", f"ended {store.ended}"]))


if __name__ == "__main__":
    main(*sys.argv[1:])
