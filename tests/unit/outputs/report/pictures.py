"""``python -m tests.unit.outputs.report.pictures``: draws the pictures of docs/report.md."""

import io
import tempfile
from pathlib import Path

from PIL import Image

from tests.unit.outputs.report.many import write_many
from tests.unit.outputs.report.pages import write_report
from tests.unit.slow_path import write_slow_path
from tests.workload.browser import Browser, chromium

FOLDER = Path(__file__).parents[4] / "docs/report"
_EXCHANGES = 3000
_WIDTH, _HEIGHT = 1280, 860
_LARGEST_CONNECTION = """
const choice = document.querySelector("#waterfall select");
const count = (option) => Number(/: ([0-9,]+) exchanges?/.exec(option.text)[1].replace(",", ""));
choice.value = d3.greatest(choice.options, count).value;
choice.dispatchEvent(new Event("input"));
"""
_COLOURS = 96
"""So few that a picture has some 60 kB; more cannot be distinguished."""


def main() -> None:
    """Make a capture, open its report, and take pictures of it."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name, chromium() as browser:
        capture, page = Path(name, "shop.pcapng"), Path(name, "shop.html")
        write_many(capture, _EXCHANGES)
        write_report(capture, page)
        browser.resize(_WIDTH, _HEIGHT)
        browser.open(page)
        _take(browser, "summary")
        browser.run(_LARGEST_CONNECTION)
        for dark, section in ((True, "latency"), (False, "waterfall"), (True, "exchanges")):
            browser.show(dark=dark)
            browser.run("document.getElementById(arguments[0]).scrollIntoView()", section)
            _take(browser, section)
        browser.show()
        browser.open(page, f"#e{_EXCHANGES + 2}")
        _take(browser, "conversation")
        _changes(browser, Path(name))


def _changes(browser: Browser, folder: Path) -> None:
    """Take a picture of what changed, in a capture of which a path becomes slow."""
    write_slow_path(folder / "slow.pcapng")
    write_report(folder / "slow.pcapng", folder / "slow.html")
    browser.open(folder / "slow.html")
    # The second sentence has the path; its button draws the group.
    browser.run("document.querySelectorAll('.changes li')[1].querySelector('button').click()")
    browser.run("document.getElementById('changes').scrollIntoView()")
    _take(browser, "changes")


def _take(browser: Browser, name: str) -> None:
    picture = Image.open(io.BytesIO(browser.driver.get_screenshot_as_png())).convert("RGB")
    picture.quantize(_COLOURS).save(FOLDER / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
