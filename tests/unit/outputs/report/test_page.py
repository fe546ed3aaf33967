"""The page of a report in a real browser: what it shows, what it never does, how fast it is."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sslsniff import decode
from sslsniff.core.escaping import escape, escape_lines
from sslsniff.core.model import Exchange
from sslsniff.statistics.outcome import Outcome
from tests.unit.outputs.report.hostile import write_hostile
from tests.unit.outputs.report.many import EXCHANGES, write_many
from tests.unit.outputs.report.pages import (
    assert_quiet,
    axe,
    killed_while_writing,
    sink,
    write_report,
)
from tests.unit.outputs.report.stalled import write_stalled
from tests.workload.browser import Browser

CAPTURES = sorted(Path("pcaps").glob("*.pcapng"))

HTML = """html head meta title style body a header h1 p nav ul li main section h2 h3 h4 dl div dt dd
figure figcaption table caption thead tbody tr th td button form label input select option span
dialog footer pre ol details summary script noscript"""
SVG = "svg g path rect line text tspan title"
ELEMENTS = {*HTML.split(), *SVG.split()}
"""All that a page consists of; no image, frame, link to a style, object or base."""

ATTRIBUTES = """
const found = new Set();
for (const each of document.querySelectorAll("*"))
  for (const { name, value } of each.attributes)
    if (name.startsWith("on") || name === "src" || name === "srcdoc" || name === "action"
      || (/href$/.test(name) && !/^#[a-z0-9]+$/.test(value))) found.add(`${name}=${value}`);
return [...found];
"""

LIST = """
const shownIn = (cell) => cell.querySelector("button")?.textContent ?? cell.textContent;
return [...document.querySelectorAll("#list tbody tr")].map((row) => [...row.cells].map(shownIn));
"""

TABLES = """
const cells = (row) => [...row.cells].map((cell) => cell.textContent);
return Object.fromEntries([...document.querySelectorAll("#detail table")].map((table) =>
  [table.caption?.textContent ?? "", [...table.rows].map(cells)]));
"""


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("many")
    write_many(folder / "many.pcapng")
    write_report(folder / "many.pcapng", folder / "many.html")
    return folder / "many.html"


def expected_row(each: Exchange) -> list[str]:
    """Return the cells of an exchange in the list, without those of times and sizes."""
    target = each.request.target if each.request else None
    if target is not None and len(target) > 200:
        target = target[:200] + "… (cut)"
    outcome = Outcome.of(each)
    return [
        escape(str(each.connection.process)),
        escape(outcome.method or "?"),
        str(outcome.status or "-"),
        escape(outcome.host or "?"),
        escape(target or "(request not seen)"),
    ]


def shown_rows(browser: Browser) -> list[list[str]]:
    rows: list[list[str]] = browser.run(LIST)
    return [[*row[1:4], *row[6:8]] for row in rows]


@pytest.mark.heavy
@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_it_shows_a_capture(browser: Browser, capture: Path, tmp_path: Path) -> None:
    write_report(capture, tmp_path / "page.html")
    browser.open(tmp_path / "page.html")
    exchanges = sorted(decode(capture), key=lambda each: each.started_ns)
    assert shown_rows(browser) == [*map(expected_row, exchanges)]
    for number in range(len(exchanges)):
        browser.run("openDetail(arguments[0], list.found)", number)
    assert browser.run("return document.getElementById('detail').open") is True
    assert_quiet(browser)


@pytest.mark.heavy
def test_nothing_of_the_wire_becomes_a_part_of_the_page(browser: Browser, tmp_path: Path) -> None:
    capture = tmp_path / "hostile.pcapng"
    write_hostile(capture)
    write_report(capture, tmp_path / "page.html")
    browser.open(tmp_path / "page.html")
    scripts = browser.run("return document.scripts.length")
    exchanges = [*decode(capture)]
    ordered = sorted(exchanges, key=lambda each: each.started_ns)
    assert shown_rows(browser) == [*map(expected_row, ordered)]
    assert browser.run("return exchanges.filter((each) => each.model).length") == 1
    for number, each in enumerate(exchanges):
        browser.run("openDetail(arguments[0], list.found)", number)
        names = browser.run("return [...document.querySelectorAll('*')].map((x) => x.localName)")
        assert {*names} <= ELEMENTS
        assert browser.run(ATTRIBUTES) == []
        assert browser.run("return document.scripts.length") == scripts
        tables = browser.run(TABLES)
        for title, message in (("Request", each.request), ("Response", each.response)):
            if message is not None and sum(len(v or "") for _, v in message.headers) < 50_000:
                expected = [
                    [escape(name or "?"), escape(value or "")] for name, value in message.headers
                ]
                assert tables.get(f"{title} headers", []) == expected
    assert browser.run("return document.title") == "sslsniff report: hostile.pcapng"
    assert_quiet(browser)


@pytest.mark.heavy
def test_a_body_and_a_conversation_are_shown_as_sent(browser: Browser, tmp_path: Path) -> None:
    capture = tmp_path / "hostile.pcapng"
    write_hostile(capture)
    write_report(capture, tmp_path / "page.html", "--report-bodies", "64K")
    browser.open(tmp_path / "page.html")
    exchanges = [*decode(capture)]
    number = next(at for at, each in enumerate(exchanges) if each.model_call)
    browser.run("openDetail(arguments[0], list.found)", number)
    call = exchanges[number].model_call
    assert call is not None
    turns = browser.run(
        "return [...document.querySelectorAll('.turns > li')].map((turn) =>"
        " turn.querySelector('pre').textContent)"
    )
    assert turns == [escape_lines(turn.text) for turn in call.messages] + [
        escape_lines("".join(call.texts))
    ]
    number = next(
        at
        for at, each in enumerate(exchanges)
        if each.request and "X-Large" in dict(each.request.headers)
    )
    browser.run("openDetail(arguments[0], list.found)", number)
    [dump] = browser.run(
        "return [...document.querySelectorAll('pre.hex')].map((x) => x.textContent)"
    )
    assert dump.startswith("00000000  00 ff fe 3c 73 63 72 69 70 74 3e ")
    assert_quiet(browser)


@pytest.mark.heavy
def test_ten_thousand_exchanges_open_quickly(browser: Browser, many: Path) -> None:
    """Bars: 2 s, 20 MB. The fastest of three: others may be using the machine."""
    assert many.stat().st_size < 20_000_000
    assert min(browser.open(many) for _ in range(3)) < 2000
    assert browser.run("return exchanges.length") == EXCHANGES + 3
    assert_quiet(browser)


@pytest.mark.heavy
def test_search_sorts_and_pages(browser: Browser, many: Path) -> None:
    browser.open(many)
    search = browser.driver.find_element("id", "search")

    def found() -> Any:
        browser.run("document.getElementById('failed').dispatchEvent(new Event('input'))")
        return browser.run("return list.found.map((row) => [row.status, row.host, row.ms])")

    def type_in(words: str) -> None:
        search.clear()
        search.send_keys(words)

    type_in("status:503 host:users.example.com")
    assert {(status, host) for status, host, _ in found()} == {(503, "users.example.com")}
    type_in('"nginx[1202]" /health')
    assert 0 < len(found()) < 2000
    type_in("constructor:x")
    assert found() == []
    type_in("")
    assert len(found()) == EXCHANGES + 3
    browser.run("document.querySelectorAll('#list th button')[4].click()")
    spans = [span for _, _, span in browser.run("return list.found.map((row) => [0, 0, row.ms])")]
    assert spans == sorted(spans, reverse=True)
    assert (
        browser.run("return document.querySelectorAll('#list th')[4].getAttribute('aria-sort')")
        == "descending"
    )
    count = "return document.querySelector('#exchanges [role=status]').textContent"
    assert browser.run(count) == "1 to 100 of 10,003 exchanges"
    browser.driver.find_element(
        "xpath", "//section[@id='exchanges']//button[.='Next page']"
    ).click()
    assert browser.run(count) == "101 to 200 of 10,003 exchanges"
    browser.run("document.querySelector('#groups td button').click()")
    assert browser.run("return document.getElementById('search').value") == 'host:"cdn.example.net"'
    assert_quiet(browser)


@pytest.mark.heavy
@pytest.mark.parametrize("write", [write_hostile, write_stalled, write_many])
def test_each_value_of_the_statistics_lists_its_exchanges(
    browser: Browser, tmp_path: Path, write: Callable[[Path], None]
) -> None:
    write(tmp_path / "a.pcapng")
    write_report(tmp_path / "a.pcapng", tmp_path / "a.html")
    browser.open(tmp_path / "a.html")
    browser.run("document.querySelectorAll('.more').forEach((button) => button.click())")
    counts = browser.run(
        "return [...document.querySelectorAll('#groups tbody tr')]"
        ".filter((row) => !row.closest('td')).map((row) => {"  # not those of raw paths
        " row.querySelector('button').click();"
        " const count = [...row.cells].find((cell) => cell.className.includes('number'));"
        " return [count.textContent, list.found.length.toLocaleString('en')]; })"
    )
    assert len(counts) > 5
    assert all(expected == found for expected, found in counts), counts
    assert_quiet(browser)


RUNS = """
const text = (cell) => cell.textContent;
const rows = (table) => [...table.tBodies[0].rows].map((row) => [...row.cells].map(text));
const details = document.querySelector("#models details");
details.open = true;
return new Promise((done) => setTimeout(() => done([
  rows(document.querySelectorAll("#models table")[1]), text(details.querySelector("summary")),
  rows(details.querySelector("table"))])));
"""


@pytest.mark.heavy
def test_the_calls_of_an_agent_are_one_run(browser: Browser, tmp_path: Path) -> None:
    """With their tokens, cost and tools; the button of a run lists its calls."""
    capture, prices = tmp_path / "many.pcapng", tmp_path / "prices.toml"
    write_many(capture, 100)
    prices.write_text('currency = "EUR"\n[models."gpt-5-*"]\ninput = 1\noutput = 10\n')
    write_report(capture, tmp_path / "page.html", "--prices", str(prices))
    browser.open(tmp_path / "page.html")
    [[run], summary, calls] = browser.run(RUNS)
    assert summary == "Run 1: 3 calls of gpt-5-mini-2026"
    cost = "0.00183 EUR"
    assert run[:7] == ["1", "agent.py[2044]", "gpt-5-mini-2026", "3", "1,200", "63", cost]
    assert run[8:] == ["2.00 ms", "late_orders 2.00 ms"]
    columns = (0, 2, 4, 5, 6, 8)
    assert [[row[each] for each in columns] for row in calls] == [
        ["1", "", "200", "21", "0.000410 EUR", "late_orders"],
        ["2", "late_orders: 2.00 ms", "400", "21", "0.000610 EUR", ""],
        ["3", "", "600", "21", "0.000810 EUR", ""],
    ]
    figures = browser.run("return document.querySelector('.figures').textContent")
    assert f"Cost of model calls{cost}" in figures
    browser.run("document.querySelectorAll('#models table')[1].querySelector('td button').click()")
    assert len(shown_rows(browser)) == 3
    assert_quiet(browser)


@pytest.mark.heavy
def test_the_keyboard_is_enough(browser: Browser, many: Path) -> None:
    """From the top: the link to the list, the search, a row, its detail, and back to the row."""
    from selenium.webdriver.common.keys import Keys

    browser.open(many)

    def press(*keys: str) -> None:
        for key in keys:
            browser.driver.switch_to.active_element.send_keys(key)

    active = "return document.activeElement.textContent"
    browser.driver.find_element("tag name", "body").send_keys(Keys.TAB)
    assert browser.run(active) == "Skip to the list of exchanges"
    press(Keys.ENTER, Keys.TAB)
    assert browser.run("return document.activeElement.id") == "search"
    while browser.run("return !document.activeElement.closest('#list tbody')"):
        press(Keys.TAB)
    first = browser.run(active)
    press(Keys.ENTER)
    assert browser.run("return document.activeElement.id") == "detail-title"
    press(Keys.TAB)
    assert browser.run(active) == "Next"
    press(Keys.ENTER)
    assert browser.run("return location.hash") == "#e1"
    press(Keys.ESCAPE)
    assert browser.run("return document.getElementById('detail').open") is False
    assert browser.run(active) == first
    assert_quiet(browser)


@pytest.mark.heavy
def test_a_link_opens_an_exchange(browser: Browser, many: Path) -> None:
    browser.open(many, "#e10002")
    heading = browser.run("return document.getElementById('detail-title').textContent")
    assert heading == "POST https://api.example.ai/v1/chat/completions"
    assert_quiet(browser)


@pytest.mark.heavy
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_screen_reader_can_use_it(browser: Browser, tmp_path: Path, dark: bool) -> None:
    """By axe's rules, contrasts included, for the page and for the detail of an exchange."""
    write_many(tmp_path / "a.pcapng", 300)
    write_report(tmp_path / "a.pcapng", tmp_path / "a.html")
    browser.show(dark=dark)
    browser.open(tmp_path / "a.html")
    assert axe(browser) == []
    browser.open(tmp_path / "a.html", "#e302")
    assert axe(browser) == []
    browser.show()


@pytest.mark.heavy
def test_it_follows_the_colours_of_the_system_and_prints_in_light_ones(
    browser: Browser, many: Path
) -> None:
    browser.open(many)
    colours = (
        "return [getComputedStyle(document.body).backgroundColor,"
        " getComputedStyle(document.querySelector('svg text')).fill,"
        " getComputedStyle(document.querySelector('nav')).display]"
    )
    browser.show(dark=True)
    assert browser.run(colours) == ["rgb(20, 23, 27)", "rgb(227, 230, 234)", "block"]
    browser.show()
    assert browser.run(colours) == ["rgb(255, 255, 255)", "rgb(28, 33, 39)", "block"]
    browser.show(dark=True, media="print")
    assert browser.run(colours) == ["rgb(255, 255, 255)", "rgb(0, 0, 0)", "none"]
    browser.show()


@pytest.mark.heavy
def test_an_empty_capture_has_a_report(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    with path.open("wb") as file:
        sink(file).close()
    browser.open(path)
    assert shown_rows(browser) == []
    assert_quiet(browser)


@pytest.mark.heavy
def test_a_half_written_page_runs_nothing(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    subprocess.run([sys.executable, "-c", killed_while_writing(path)], check=False)
    browser.driver.get(path.as_uri())
    assert browser.run("return document.title") == "No report yet"
    assert browser.run("return document.scripts.length") == 0
    assert browser.run("return document.body.innerText").startswith("No report yet\n")
    assert_quiet(browser)
