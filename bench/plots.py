"""Plots of the results, as PNG."""

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.rows import Row

FOLDER = Path(__file__).with_name("plots")
_COST = re.compile(r"(\d+) B: added to a call, (.+)")
_LEFT = re.compile(r"(.+): requests/s left")
_SIZE = (7.0, 3.2)


def draw(rows: list[Row]) -> list[tuple[str, Path]]:
    """Draw what ``rows`` have figures for; return the title and the file of each plot."""
    FOLDER.mkdir(exist_ok=True)
    drawn = []
    for name, title, plot in _PLOTS:
        figure = Figure(figsize=_SIZE, layout="constrained")
        axes = figure.add_subplot()
        if plot(axes, rows):
            axes.set_title(title)
            axes.spines[["top", "right"]].set_visible(False)
            path = FOLDER / f"{name}.png"
            # Without the version of matplotlib, so that equal figures are equal files.
            figure.savefig(path, dpi=120, metadata={"Software": None})
            drawn.append((title, path))
    return drawn


def _costs(axes: Axes, rows: Iterable[Row]) -> bool:
    """Draw a bar for each tool, grouped by the size of the call."""
    costs: dict[str, dict[str, float]] = {}
    for row in rows:
        found = _COST.fullmatch(row.what)
        if found:
            costs.setdefault(found[2], {})[f"{int(found[1]):,} B"] = row.value
    width = 0.8 / max(1, len(costs))
    for place, (tool, by_size) in enumerate(costs.items()):
        starts = [group + place * width for group in range(len(by_size))]
        bars = axes.bar(starts, list(by_size.values()), width, label=tool)
        axes.bar_label(bars, fmt="%.1f", fontsize=8)
        axes.set_xticks([start - place * width / 2 for start in starts], list(by_size))
    axes.set_ylabel("us")
    if costs:
        below = (0.5, -0.08)
        axes.legend(frameon=False, loc="upper center", bbox_to_anchor=below, ncols=len(costs))
    return bool(costs)


def _left(axes: Axes, rows: Iterable[Row]) -> bool:
    left = {found[1]: row.value for row in rows if (found := _LEFT.fullmatch(row.what))}
    bars = axes.barh(list(left), list(left.values()))
    axes.bar_label(bars, fmt="%.0f %%", padding=2)
    axes.axvline(100, color="grey", linewidth=0.8)
    axes.invert_yaxis()
    axes.set_xlabel("% of the requests/s while nobody watches")
    return bool(left)


def _memory(axes: Axes, rows: Iterable[Row]) -> bool:
    courses = [row for row in rows if row.course]
    for row in courses:
        seconds, values = zip(*row.course, strict=True)
        axes.plot(seconds, values, label=row.what.partition(":")[0])
        if row.bar is not None:
            axes.axhline(row.bar, color="grey", linestyle="--", linewidth=0.8, label="bar")
        axes.set_ylabel(row.unit)
    if courses:
        axes.set_ylim(bottom=0)
        axes.set_xlabel("s")
        axes.legend(frameon=False, loc="lower right")
    return bool(courses)


_PLOTS: tuple[tuple[str, str, Callable[[Axes, Iterable[Row]], bool]], ...] = (
    ("cost", "What is added to a call", _costs),
    ("left", "Requests/s left while sslsniff captures", _left),
    ("memory", "Resident memory of sslsniff while it decodes", _memory),
)
