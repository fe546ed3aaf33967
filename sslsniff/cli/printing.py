"""Prints notes to standard error, and tables to standard output."""

import contextlib
import os
import sys
from typing import TYPE_CHECKING

from sslsniff.core.escaping import escape

if TYPE_CHECKING:
    from rich.table import Table

_ENDLESS = 1 << 16


def note(line: str) -> None:
    """Write a line for the user to standard error; if that fails, the work continues."""
    with contextlib.suppress(OSError):
        os.write(2, f"sslsniff: {escape(line)}\n".encode(errors="backslashreplace"))


def print_table(table: "Table", piped_columns: int = _ENDLESS) -> None:
    """Print ``table`` to standard output, as wide as the terminal is.

    If that is not a terminal, ``piped_columns`` is the width: by default each row is one line.
    """
    from rich.console import Console

    Console(width=None if sys.stdout.isatty() else piped_columns).print(table)
