"""Lines for the user beside the output, on standard error."""

import contextlib
import os

from sslsniff.escaping import escape


def note(line: str) -> None:
    """Tell the user something; where nobody can be told, the work still goes on."""
    with contextlib.suppress(OSError):
        os.write(2, f"sslsniff: {escape(line)}\n".encode(errors="backslashreplace"))
