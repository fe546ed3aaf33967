"""What the page of a report says of a capture: what is wrong first, then figures."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sslsniff.core.model import Exchange
from sslsniff.core.sink import FlowControlStall, Summary
from sslsniff.decoders.databases.statement import Statement
from sslsniff.decoders.messages import Side
from sslsniff.outputs.report.report import ReportSink
from tests.unit.captures import READ, WRITE, Taker, answer, get
from tests.unit.exchanges import exchange, request, response
from tests.unit.outputs.report.many import write_many
from tests.unit.outputs.report.pages import assert_quiet, axe, sink, write_report
from tests.unit.outputs.report.stalled import WAITED_MS, write_stalled
from tests.unit.slow_path import SLOW_PATH, write_slow_path
from tests.workload.browser import Browser


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
        ("3", "the window of stream 3 GET /3 of 65,535 B was used up"),
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
def test_it_says_how_many_requests_were_not_seen(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    with path.open("wb") as file:
        report: ReportSink = sink(file)
        report.summary(Summary(exchanges=5, connections=2, joined=2, without_request=4))
        report.close()
    browser.open(path)
    text = browser.run("return document.getElementById('ledger').textContent")
    assert "4 exchanges without a request: the connection was joined in the middle." in text
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
