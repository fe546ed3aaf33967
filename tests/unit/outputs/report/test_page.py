"""The page of a report in a real browser: what it shows, what it never does, how fast it is."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sslsniff import decode
from sslsniff.core.escaping import escape, escape_lines
from sslsniff.core.model import Exchange
from sslsniff.core.sink import FlowControlStall
from sslsniff.decoders.databases.statement import Statement
from sslsniff.decoders.messages import Side
from sslsniff.outputs.report.report import ReportSink
from sslsniff.statistics.outcome import Outcome
from tests.unit.captures import READ, WRITE, Taker, answer, get
from tests.unit.exchanges import exchange, request, response
from tests.unit.outputs.report.hostile import write_hostile
from tests.unit.outputs.report.many import EXCHANGES, write_many
from tests.unit.outputs.report.pages import LIBRARIES, killed_while_writing, sink, write_report
from tests.unit.outputs.report.stalled import WAITED_MS, write_stalled
from tests.unit.slow_path import SLOW_PATH, write_slow_path
from tests.workload.browser import Browser, chromium

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
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("many")
    write_many(folder / "many.pcapng")
    write_report(folder / "many.pcapng", folder / "many.html")
    return folder / "many.html"


def assert_quiet(browser: Browser) -> None:
    """No script but the page's own ran or tried to, and nothing went wrong."""
    assert browser.violations() == []
    assert browser.log() == []


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
def test_stalls_are_shown(browser: Browser, tmp_path: Path) -> None:
    write_stalled(tmp_path / "h2.pcapng")
    write_report(tmp_path / "h2.pcapng", tmp_path / "h2.html")
    browser.open(tmp_path / "h2.html")
    rows = browser.run(
        "return [...document.querySelectorAll('#stalls tbody tr')].map((row) =>"
        " [...row.cells].map((cell) => cell.textContent))"
    )
    assert sorted((row[3], row[1]) for row in rows) == [
        ("3", "the window of stream 3 of 65,535 B was used up"),
        ("all", "the connection's window of 65,535 B was used up"),
    ]
    assert {(row[2], row[4], row[6]) for row in rows} == {("1234-1", "server", "yes")}
    links = browser.driver.find_elements("css selector", "#waterfall svg a")
    assert {link.get_dom_attribute("href") for link in links} == {"#e0", "#e1", "#e2"}
    stalled = browser.run(
        "return stalledParts(exchanges, capture.stalls.find((stall) => !stall.stream),"
        " exchanges[0].startUs).map((part) => [part.row.stream, part.to - part.from])"
    )
    assert stalled == [[3, pytest.approx(WAITED_MS, abs=5)]]  # 5 had not been answered
    assert_quiet(browser)


@pytest.mark.heavy
def test_what_has_no_time_is_in_no_chart(browser: Browser, tmp_path: Path) -> None:
    """An exchange and a stall without a time, beside an exchange with one."""
    path = tmp_path / "times.html"
    dated = exchange(request(), response(), protocol="http/2")
    undated = replace(dated, started_ns=0, first_byte_ns=0, ended_ns=0)
    stall = FlowControlStall(1, Side.SERVER, 0, is_over=True)
    with path.open("wb") as file:
        report: ReportSink = sink(file)
        for each in (dated, undated):
            report.exchange(each)
        report.stall(dated.connection, stall, 0)
        report.close()
    browser.open(path)
    links = browser.driver.find_elements("css selector", "#waterfall svg a")
    assert {link.get_dom_attribute("href") for link in links} == {"#e0"}
    texts = browser.run(
        "return [...document.querySelectorAll('#waterfall svg text')].map((each) =>"
        " Number(each.textContent.replaceAll(',', ''))).filter((each) => !isNaN(each))"
    )
    assert 0 < max(texts) <= 5  # milliseconds
    since = browser.run("return document.querySelector('#stalls tbody tr').cells[5].textContent")
    assert since == "unknown"
    assert_quiet(browser)


@pytest.mark.heavy
def test_it_says_what_is_not_in_it(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    with path.open("wb") as file:
        report: ReportSink = sink(file, most_bytes=20_000)
        for number in range(100):
            asked = request(target=f"/{number}", body=b"x" * 1000)
            report.exchange(exchange(asked, response()))
        report.close()
    browser.open(path)
    text = browser.run("return document.getElementById('ledger').textContent")
    assert "Bodies and conversations of the oldest 100 exchanges of the list are left out" in text
    assert "Headers of the oldest" in text
    summary = browser.run("return document.getElementById('summary').textContent")
    assert "The capture ended by an error: what was lost is not known." in summary
    browser.run("openDetail(0, list.found)")
    detail = browser.run("return document.getElementById('detail').textContent")
    assert "Headers and bodies of this exchange were left out" in detail
    assert_quiet(browser)


FIGURES = """
return Object.fromEntries([...document.querySelectorAll(".figures > div")].map((tile) =>
  [tile.querySelector("dt").textContent, tile.querySelector("dd").textContent]));
"""


@pytest.mark.heavy
def test_filtered_figures_say_of_how_many(browser: Browser, tmp_path: Path) -> None:
    taker = Taker(tmp_path / "a.pcapng")
    steps = [(WRITE, get("/a")), (READ, answer(b"a")), (WRITE, get("/b")), (READ, answer(b"b"))]
    taker.take([*steps])
    taker.take([(WRITE, get("/c")), (READ, answer(bytes(5000)))])
    taker.close()
    write_report(tmp_path / "a.pcapng", tmp_path / "all.html")
    browser.open(tmp_path / "all.html")
    whole = browser.run(FIGURES)
    assert (whole["Exchanges"], whole["Connections"], whole["Plaintext"]) == ("3", "2", "5.4 kB")
    summary = "return document.getElementById('summary').textContent"
    assert "what the filter let through" not in browser.run(summary)
    write_report(tmp_path / "a.pcapng", tmp_path / "part.html", "~u /a")
    browser.open(tmp_path / "part.html")
    part = browser.run(FIGURES)
    assert (part["Exchanges"], part["Connections"]) == ("1 of 3", "1 of 2")
    assert part["Plaintext"] == f"{sum(len(data) for _, data in steps)} B of 5.4 kB"
    assert part["Duration"] == whole["Duration"]
    assert "Duration, bytes lost and libraries that were not probed are" in browser.run(summary)
    assert_quiet(browser)


@pytest.mark.heavy
def test_a_statement_is_ok_or_failed_and_says_its_operation_once(
    browser: Browser, tmp_path: Path
) -> None:
    path = tmp_path / "a.html"
    with path.open("wb") as file:
        report: ReportSink = sink(file)
        for statement in (
            Statement("postgresql", "UPDATE", "UPDATE stock SET reserved = 1"),
            Statement("postgresql", "SELECT", "SELECT nothing", error="no such column"),
            Statement("mysql", "PING"),
            Statement(
                "mysql", "SELECT", "SELECT name, price FROM goods WHERE id = ?", parameters=[7]
            ),
        ):
            made = exchange(None, None, protocol=statement.system)
            made.statement, made.stream, made.first_byte_ns = statement, None, made.ended_ns
            report.exchange(made)
        report.exchange(exchange(request(target="/a"), response()))
        report.exchange(exchange(request(target="/b"), None, error="connection closed"))
        report.close()
    browser.open(path)
    labels = browser.run("return exchanges.map(waterfallLabel)")
    assert labels == [
        "UPDATE stock SET reserved = 1 ok",
        "SELECT nothing failed",
        "PING ok",
        "SELECT name, price FRO…ERE id = ?  [7] ok",
        "GET /a 200",
        "GET /b -",
    ]
    legend = browser.run(
        "return [...document.querySelector('#activity .key').children].map((x) => x.textContent)"
    )
    assert legend == ["2xx, ok", "failed", "no status"]
    by_status = browser.run(
        "return [...document.querySelectorAll('#groups caption')].filter((caption) =>"
        " caption.textContent === 'By status').flatMap((caption) =>"
        " [...caption.parentElement.tBodies[0].rows].map((row) => row.cells[0].textContent))"
    )
    assert sorted(by_status) == ["200", "failed", "no status", "ok"]
    browser.run("openDetail(0, list.found)")
    title = browser.run("return document.getElementById('detail-title').textContent")
    assert title == "UPDATE stock SET reserved = 1"
    assert_quiet(browser)


SECTIONS = "return [...document.querySelectorAll('main > section')].map((each) => each.id)"
SUMMARY = "return document.getElementById('summary').textContent"


def timed(number: int, ms: int, **more: Any) -> Exchange:
    """Return an exchange that begins at ``number`` ms and takes ``ms``."""
    made = exchange(request(target=f"/{number}"), more.pop("response", response()), **more)
    started_ns = made.started_ns + number * 1_000_000
    return replace(made, started_ns=started_ns, ended_ns=started_ns + ms * 1_000_000)


def open_page(browser: Browser, path: Path, exchanges: list[Exchange]) -> None:
    with path.open("wb") as file:
        report: ReportSink = sink(file)
        for each in exchanges:
            report.exchange(each)
        report.close()
    browser.open(path)


@pytest.mark.heavy
def test_what_is_wrong_comes_first(browser: Browser, tmp_path: Path) -> None:
    write_many(tmp_path / "a.pcapng", 300)
    write_report(tmp_path / "a.pcapng", tmp_path / "a.html")
    browser.open(tmp_path / "a.html")
    order = ["summary", "errors", "slowest", "waterfall", "activity", "models", "groups"]
    shown = browser.run(SECTIONS)
    assert shown[:4] == order[:4]
    assert [each for each in shown if each in order] == order
    assert "No exchange failed" not in browser.run(SUMMARY)
    write_stalled(tmp_path / "b.pcapng")
    write_report(tmp_path / "b.pcapng", tmp_path / "b.html", "~c 204")
    browser.open(tmp_path / "b.html")
    assert browser.run(SECTIONS)[:3] == ["summary", "stalls", "slowest"]
    assert "No exchange failed" not in browser.run(SUMMARY)
    assert_quiet(browser)


@pytest.mark.heavy
def test_that_nothing_failed_is_one_line(browser: Browser, tmp_path: Path) -> None:
    open_page(browser, tmp_path / "a.html", [timed(0, 1)])
    assert "No exchange failed." in browser.run(SUMMARY)
    assert "errors" not in browser.run(SECTIONS)
    assert "sizes" not in browser.run(SECTIONS)  # no body of any size
    assert_quiet(browser)


@pytest.mark.heavy
def test_the_last_of_each_error_can_be_opened(browser: Browser, tmp_path: Path) -> None:
    failed = [timed(at, 1, error="reset: CANCEL") for at in (5, 1, 9)]
    open_page(browser, tmp_path / "a.html", failed)
    browser.run("document.querySelectorAll('#errors tbody td button')[1].click()")
    title = browser.run("return document.getElementById('detail-title').textContent")
    assert title.endswith("/9")
    assert_quiet(browser)


@pytest.mark.heavy
def test_the_waterfall_begins_at_the_slowest_and_folds_quick_exchanges(
    browser: Browser, tmp_path: Path
) -> None:
    usual = replace(timed(0, 1).connection, id="1-1")
    slow = replace(usual, id="2-1")
    quick = [replace(timed(10 * at, 1), connection=slow) for at in range(400)]
    quick[200] = replace(quick[200], ended_ns=quick[200].started_ns + 900_000_000)
    quick[300] = replace(quick[300], error="reset: CANCEL")
    others = [replace(timed(at, 1), connection=usual) for at in range(500)]
    open_page(browser, tmp_path / "a.html", [*others, *quick])
    labels = (
        "return [...document.querySelectorAll('#waterfall svg g')].flatMap((group) =>"
        " [...group.querySelectorAll(':scope > text')].map((text) => text.textContent))"
        ".filter((text) => text.includes('exchange') || text.includes('/'))"
    )
    assert browser.run(labels) == [
        "200 exchanges of at most 1.00 ms",
        "GET /2000 200",
        "99 exchanges of at most 1.00 ms",
        "GET /3000 200",
        "99 exchanges of at most 1.00 ms",
    ]
    chosen = browser.run(
        "return document.querySelector('#waterfall select').selectedOptions[0].text"
    )
    assert chosen.startswith("2-1: 400 exchanges, slowest 900.0 ms, 1 failed, ")
    browser.run("document.querySelector('#waterfall input').click()")
    assert browser.run(labels)[:21][-1] == "GET /2000 200"  # the page with the slowest: from 180 on
    status = "return document.querySelector('#waterfall [role=status]').textContent"
    assert browser.run(status) == "181 to 240 of 400 exchanges"
    assert_quiet(browser)


@pytest.mark.heavy
def test_an_upload_is_among_the_largest(browser: Browser, tmp_path: Path) -> None:
    upload = exchange(request("POST", target="/up", body=bytes(9000)), response())
    download = exchange(request(target="/down"), response(body=bytes(8000)))
    open_page(browser, tmp_path / "a.html", [download, upload])
    rows = browser.run(
        "return [...document.querySelectorAll('#sizes tbody tr')].map((row) =>"
        " [...row.cells].slice(5).map((cell) => cell.textContent))"
    )
    assert [[*row[:2], row[-1]] for row in rows] == [
        ["9.0 kB", "0 B", "/up"],
        ["0 B", "8.0 kB", "/down"],
    ]
    assert_quiet(browser)


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


@pytest.mark.heavy
def test_what_changed_is_said_drawn_and_opened(browser: Browser, tmp_path: Path) -> None:
    write_slow_path(tmp_path / "a.pcapng")
    write_report(tmp_path / "a.pcapng", tmp_path / "a.html")
    browser.open(tmp_path / "a.html")
    said = browser.run(
        "return [...document.querySelectorAll('.changes li')].map((each) => each.textContent)"
    )
    name = "at shop.example.com (shop, server)"
    assert re.fullmatch(
        rf"since \d\d:\d\d:\d\d: GET /cart {re.escape(name)} errors 0.\d % → \d\d %", said[0]
    )
    slow = f": POST /reserve/sku-{{}} {name} 22 ms → 2.0 s (only {SLOW_PATH})"
    assert re.fullmatch(rf"since \d\d:\d\d:\d\d{re.escape(slow)}", said[1])

    captions = (
        "return [...document.querySelectorAll('#changes figcaption')].map((c) => c.textContent)"
    )
    assert all("GET /cart" in caption for caption in browser.run(captions))
    second = "document.querySelectorAll('.changes li')[1]"
    browser.run(f"{second}.querySelectorAll('button')[0].click()")
    assert all("POST /reserve/sku-{}" in caption for caption in browser.run(captions))
    assert axe(browser) == []
    browser.run(f"{second}.querySelectorAll('button')[1].click()")
    listed = "return document.querySelector('#exchanges [role=status]').textContent"
    assert browser.run(listed) == "1 to 47 of 47 exchanges"

    browser.run("document.querySelector('details.paths').open = true")
    rows = browser.run(
        "return [...document.querySelectorAll('details.paths[open] tbody tr')]"
        ".map((row) => [...row.children].map((cell) => cell.textContent))"
    )
    assert len(rows) == 10
    assert rows[0][:3] == [SLOW_PATH, "47", "0"]
    assert axe(browser) == []
    assert_quiet(browser)
