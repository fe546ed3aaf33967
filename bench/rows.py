"""The rows of the report."""

from typing import NamedTuple


class Row(NamedTuple):
    """One figure; ``bar`` is the most that it may be, ``least`` the least, None if only told."""

    what: str
    value: float
    unit: str
    bar: float | None = None
    note: str = ""
    least: float | None = None

    @property
    def ok(self) -> bool:
        """Say whether the bar is kept."""
        return (self.bar is None or self.value <= self.bar) and (
            self.least is None or self.value >= self.least
        )
