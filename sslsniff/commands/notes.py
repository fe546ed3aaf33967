"""Lines for the user beside the output, on standard error."""

import contextlib
import os

from sslsniff.escaping import escape


def note(line: str) -> None:
    """Write a line for the user; if that fails, the work continues."""
    with contextlib.suppress(OSError):
        os.write(2, f"sslsniff: {escape(line)}\n".encode(errors="backslashreplace"))
