"""The rows of the report."""

from typing import NamedTuple


class Row(NamedTuple):
    """One figure; ``bar`` is the most that it may be, None where it is only told."""

    what: str
    value: float
    unit: str
    bar: float | None = None
    note: str = ""

    @property
    def ok(self) -> bool:
        """Say whether the bar is kept."""
        return self.bar is None or self.value <= self.bar
