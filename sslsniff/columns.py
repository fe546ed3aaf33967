"""Tables that commands print."""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

_ENDLESS = 1 << 16


def print_table(table: "Table") -> None:
    """Print ``table`` to standard output: as wide as a terminal is, elsewhere a line a row."""
    from rich.console import Console

    Console(width=None if sys.stdout.isatty() else _ENDLESS).print(table)
