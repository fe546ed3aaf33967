"""The first line of the screen: which views there are."""

from textual.content import Content

VIEWS = ("exchanges", "connections", "statistics", "capture", "keys")


def tab_line(view: str, figures: str, columns: int) -> Content:
    """Return the line of the views, with ``figures`` at its end."""
    tabs = "".join(
        f"[reverse] {number} {name.capitalize()} [/]"
        if name == view
        else f"[@click=app.view('{name}')] {number} {name.capitalize()} [/]"
        for number, name in enumerate(VIEWS, 1)
    )
    room = columns - sum(len(name) + 4 for name in VIEWS) - len(figures) - 1
    return Content.from_markup(f"{tabs}{' ' * max(1, room)}$figures", figures=figures)
