"""Reports of captures, what a parser of HTML finds in them, and what a browser says of them."""

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from sslsniff.cli.main import main
from sslsniff.outputs.report.report import ReportSink
from tests.workload.browser import Browser

PAGE = Path(__file__).parents[4] / "sslsniff/outputs/report/page"
LIBRARIES = Path(__file__).parents[4] / ".cache/report-libraries/node_modules"


def write_report(capture: Path, page: Path, *more: str) -> None:
    """Run ``sslsniff report``."""
    assert main(["report", str(capture), "-o", str(page), *more]) == 0


class Parts(HTMLParser):
    """The texts of script and style elements, and the attributes of meta elements."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.texts: dict[str, list[str]] = {"script": [], "style": []}
        self.data: dict[str, str] = {}
        self.meta: dict[str, str] = {}
        self._open: tuple[str, str | None] | None = None
        self.feed(page.decode())
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "meta":
            name = given.get("http-equiv") or given.get("name") or "charset"
            self.meta[name] = given.get("content") or ""
        if tag in self.texts:
            self._open = tag, given.get("id")
            if given.get("id"):
                self.data[given["id"] or ""] = ""

    def handle_data(self, data: str) -> None:
        if self._open is None:
            return
        tag, name = self._open
        if name:
            self.data[name] += data
        else:
            self.texts[tag].append(data)

    def handle_endtag(self, tag: str) -> None:
        self._open = None

    @property
    def capture(self) -> Any:
        return json.loads(self.data["capture"])

    @property
    def rows(self) -> list[Any]:
        rows: list[Any] = json.loads(self.data["rows"])
        return rows

    def lines(self, name: str) -> list[Any]:
        """Return the objects of ``heads`` or ``bodies``; None where an exchange has none."""
        texts = self.data[name].split("\n")[:-1]
        return [json.loads(text) if text else None for text in texts]


def assert_quiet(browser: Browser) -> None:
    """No script but the page's own ran or tried to, and nothing went wrong."""
    assert browser.violations() == []
    assert browser.log() == []


def axe(browser: Browser) -> list[Any]:
    """Return which of axe's rules the page breaks, and where."""
    source = (LIBRARIES / "axe-core/axe.min.js").read_text()
    browser.driver.execute_cdp_cmd("Runtime.evaluate", {"expression": source})
    broken: list[Any] = browser.driver.execute_async_script(
        "const done = arguments[0];"
        "const places = (rule) => rule.nodes.slice(0, 3).map((node) => node.html);"
        "axe.run({ resultTypes: ['violations'] }).then((found) =>"
        " done(found.violations.map((rule) => [rule.id, places(rule)])));"
    )
    return broken


def sink(file: Any, **options: Any) -> ReportSink:
    usual = {
        "source": "test", "expression": None, "body_bytes": 4096, "most_bytes": 16 << 20,
    }  # fmt: skip
    return ReportSink(file, **(usual | options))


def killed_while_writing(path: Path) -> str:
    """Return a program of Python that is killed when it has written 3 MiB of a page."""
    return f"""
import os, signal
from sslsniff.outputs.report.page_file import PageFile

def pieces():
    yield b"<!doctype html>" + b" " * 4200
    for _ in range(3 << 10):
        yield b"<script>document.title = 'ran'</script>".ljust(1024)
    os.kill(os.getpid(), signal.SIGKILL)

with open({str(path)!r}, "wb") as file:
    PageFile(file).write(pieces())
"""
