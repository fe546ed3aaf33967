"""``sslsniff top``, and ``--tui``: a screen, and the capture that it shows in another process."""

import os
import sys
from collections.abc import Sequence

from sslsniff.commands.options.output_options import OutputOptions
from sslsniff.commands.printing import note
from sslsniff.errors import OutputError

_CAPTURED = ("--json", "--frames")
_BODY = "64K"


def show_screen(
    arguments: Sequence[str],
    options: OutputOptions,
    command: Sequence[str] = (),
    reads: str | None = None,
) -> int:
    """Show what ``sslsniff ARGUMENTS -- COMMAND`` captures; return the exit code.

    ``options``: what the arguments say. ``reads``: the capture file that they read.
    Raises ``OutputError``.
    """
    _require_terminal()
    from sslsniff.screen.app import ScreenApp  # Textual takes 200 ms to import
    from sslsniff.screen.captured.capture_process import CaptureProcess
    from sslsniff.screen.captured.capture_store import Store
    from sslsniff.screen.contents.statistics_lines import Statistics
    from sslsniff.screen.courtesy import Courtesy

    statistics = Statistics()
    store = Store(statistics.add)
    given = [each for each in arguments if each != "--tui"]
    body = () if any(each.startswith("--max-body") for each in given) else ("--max-body", _BODY)
    capture = CaptureProcess([*given, *_CAPTURED, *body], command, store.feed, store.add_note)
    try:
        code = capture.wait_until_ready()
        if code:
            for line in capture.notes:
                os.write(2, f"{line}\n".encode())
            return code
        app = ScreenApp(
            store,
            statistics,
            " ".join(["sslsniff", *given, *(["--", *command] if command else [])]),
            lambda: capture.exit_code,
            reads or options.pcap,
            is_redacted=options.redact or bool(options.redact_pattern),
            courtesy=Courtesy(beside=capture.pid),
        )
        app.run()
    finally:
        code = capture.end()
    lost = store.losses.bytes
    note(f"{store.ended:,} exchanges, {lost:,} bytes lost")
    return app.return_code or (0 if code < 0 else code)


def _require_terminal() -> None:
    """Raise ``OutputError`` unless there is a terminal to show a screen on."""
    if not (sys.stdin is not None and sys.stdin.isatty() and os.isatty(1)):
        raise OutputError(
            "a screen needs a terminal as standard input and output",
            "run it on one, or use --json for programs",
        )
