"""``sslsniff top``, and ``--tui``: a screen, and the capture that it shows in another process."""

import os
import select
import signal
import sys
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sslsniff.cli.printing import note
from sslsniff.cli.screen_start import calm_terminal
from sslsniff.core.errors import OutputError, grouped
from sslsniff.outputs.pcap.output import PCAP
from sslsniff.redaction.options import PATTERNS, REDACT
from sslsniff.settings.asked import Asked

if TYPE_CHECKING:
    from sslsniff.screen.captured.capture_process import CaptureProcess

_CAPTURED = ("--json", "--frames")
_BODY = "64K"


def show_screen(
    arguments: Sequence[str],
    asked: Asked,
    command: Sequence[str] = (),
    reads: str | None = None,
) -> int:
    """Show what ``sslsniff ARGUMENTS -- COMMAND`` captures; return the exit code.

    ``asked``: what the arguments ask for. ``reads``: the capture file that they read.
    Raises ``OutputError``.
    """
    _require_terminal()
    with calm_terminal() as restore_terminal:
        from sslsniff.screen.captured.capture_process import CaptureProcess
        from sslsniff.screen.captured.capture_store import Store
        from sslsniff.screen.contents.statistics_lines import Statistics

        statistics = Statistics()
        store = Store(statistics.add)
        given = [each for each in arguments if each != "--tui"]
        body = () if any(each.startswith("--max-body") for each in given) else ("--max-body", _BODY)
        capture = CaptureProcess([*given, *_CAPTURED, *body], command, store.feed, store.add_note)
        try:
            # Textual takes 200 ms to import: the capture starts meanwhile.
            from sslsniff.screen.app import ScreenApp
            from sslsniff.screen.courtesy import Courtesy

            app = ScreenApp(
                store,
                statistics,
                " ".join(["sslsniff", *given, *(["--", *command] if command else [])]),
                lambda: capture.state,
                reads or asked[PCAP.option],
                is_redacted=asked[REDACT] or bool(asked[PATTERNS]),
                courtesy=lambda: Courtesy(beside=capture.pid),
            )
            _end_with_terminal(capture)
            app.run()
        finally:
            restore_terminal()
            code = capture.end()
    if capture.state.has_failed_to_start:
        for line in capture.notes:
            os.write(2, f"{line}\n".encode())
        return max(code, 1)
    lost = store.losses.bytes
    note(f"{grouped(store.ended, 'exchange')}, {grouped(lost, 'byte')} lost")
    return app.return_code or (0 if code < 0 else code)


def _end_with_terminal(capture: "CaptureProcess") -> None:
    """End the capture and this process when the terminal is gone, by a thread.

    SIGHUP may be ignored, and Textual, whose thread then fails to write, waits for it for ever.
    """

    def wait() -> None:
        terminal = select.poll()
        terminal.register(0, 0)  # POLLHUP and POLLERR come unasked (poll(2))
        while not terminal.poll():
            pass
        capture.end()
        os._exit(128 + signal.SIGHUP)

    threading.Thread(target=wait, daemon=True).start()


def _require_terminal() -> None:
    """Raise ``OutputError`` unless there is a terminal to show a screen on."""
    names = ("standard input", "standard output", "standard error")
    missing = [name for fd, name in enumerate(names) if not os.isatty(fd)]
    if missing or sys.stdin is None:
        verb = "are" if len(missing) > 1 else "is"
        raise OutputError(
            f"a screen needs a terminal; {', '.join(missing or names[:1])} {verb} not",
            "run it on one, or use --json for programs",
        )
