"""Tables that commands print."""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

_ENDLESS = 1 << 16


def print_table(table: "Table", piped_columns: int = _ENDLESS) -> None:
    """Print ``table`` to standard output, as wide as the terminal is.

    Elsewhere ``piped_columns`` is the limit: by default each row is one line.
    """
    from rich.console import Console

    Console(width=None if sys.stdout.isatty() else piped_columns).print(table)
