"""The rows of the report."""

from typing import NamedTuple

_WHOLE = frozenset(("bytes", ""))


class Row(NamedTuple):
    """One figure; ``bar`` is the most that it may be, ``least`` the least, None if only told.

    ``course``: how it came to that, pairs of seconds and values.
    """

    what: str
    value: float
    unit: str
    bar: float | None = None
    note: str = ""
    least: float | None = None
    course: tuple[tuple[float, float], ...] = ()

    @property
    def ok(self) -> bool:
        """Say whether the bar is kept."""
        return (self.bar is None or self.value <= self.bar) and (
            self.least is None or self.value >= self.least
        )

    @property
    def value_text(self) -> str:
        """The value as it is shown, without its unit."""
        return f"{self.value:,.{0 if self.unit in _WHOLE or self.value >= 1000 else 1}f}"

    @property
    def bar_text(self) -> str:
        """The bar as it is shown; empty if there is none."""
        if self.least is not None:
            return f"at least {self.least:,g}"
        return "" if self.bar is None else f"{self.bar:g}"
