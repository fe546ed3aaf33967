"""Puts a page together: its own source and libraries from ``page/``, and the data of a report.

Nothing but these scripts and styles runs or applies: the page's policy has their hashes, and there
is neither 'unsafe-inline' nor 'unsafe-eval' in it (Content Security Policy Level 3, section 6.7).
"""

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

_FOLDER = Path(__file__).with_name("page")
_STYLES = ("report.css", "changes.css")
_SCRIPTS = (  # in the order in which they use each other
    "d3.min.js",
    "plot.umd.min.js",
    "elements.js",
    "data.js",
    "tables.js",
    "charts.js",
    "conversation.js",
    "detail.js",
    "exchanges.js",
    "runs.js",
    "changes.js",
    "trees.js",
    "faults.js",
    "waterfall.js",
    "sections.js",
)

_PLOT_STYLE = """:where(.chart) {
  --plot-background: white;
  display: block;
  height: auto;
  height: intrinsic;
  max-width: 100%;
}
:where(.chart text),
:where(.chart tspan) {
  white-space: pre;
}"""
"""The style element that Plot adds to each chart of the class ``chart``."""


def page(data: Mapping[str, Iterable[bytes]]) -> Iterator[bytes]:
    """Yield the pieces of the page.

    ``data``: for the id of each element with data, pieces of UTF-8 text without ``<``. The licences
    of the libraries go with them.
    """
    styles = [_read(name) for name in _STYLES]
    scripts = [_read(name) for name in _SCRIPTS]
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src {' '.join(map(_hash, scripts))}",
            f"style-src {' '.join(map(_hash, [*styles, _PLOT_STYLE]))}",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )
    before, after = _read("report.html").split("<!-- data -->")
    before = before.replace("{policy}", policy)
    yield before.replace("<!-- styles -->", "".join(map(_style, styles))).encode()
    for name, pieces in {**data, "licences": [_read("LICENSES.txt").encode()]}.items():
        yield f'<script type="text/plain" id="{name}">'.encode()
        yield from pieces
        yield b"</script>\n"
    yield after.replace("<!-- scripts -->", "".join(map(_script, scripts))).encode()


def _read(name: str) -> str:
    return (_FOLDER / name).read_text("utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def _style(text: str) -> str:
    return f"<style>{text}</style>\n"


def _script(text: str) -> str:
    return f"<script>{text}</script>\n"
