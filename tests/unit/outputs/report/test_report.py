"""What a report contains, by a parser of HTML that is not a browser's."""

import base64
import gzip
import hashlib
import json
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sslsniff import decode
from sslsniff.cli.main import main
from sslsniff.core.sink import Summary
from sslsniff.decoders.messages import Headers
from sslsniff.outputs.report import kept_exchanges
from sslsniff.outputs.report.details import Details, body_object
from sslsniff.outputs.report.group_changes import BY, changes_object, lines_by
from sslsniff.outputs.report.page_source import page
from tests.unit.captures import READ, WRITE, Taker, answer, get
from tests.unit.exchanges import connection, exchange, request, response
from tests.unit.outputs.report.hostile import write_hostile
from tests.unit.outputs.report.many import write_many
from tests.unit.outputs.report.pages import LIBRARIES, PAGE, Parts, sink, write_report
from tests.unit.outputs.report.stalled import WAITED_MS, write_stalled
from tests.unit.slow_path import SLOW_PATH, write_slow_path
from tests.workload.outcomes import START_NS, outcome

CAPTURES = sorted(Path("pcaps").glob("*.pcapng"))


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_it_has_every_exchange_with_its_line_of_json(capture: Path, tmp_path: Path) -> None:
    write_report(capture, tmp_path / "page.html")
    lines = tmp_path / "lines.json"
    assert main(["read", str(capture), "--json", "-o", str(lines)]) == 0
    written = [json.loads(line) for line in lines.read_text().splitlines()]
    expected = [each for each in written if each["type"] == "exchange"]
    parts = Parts((tmp_path / "page.html").read_bytes())
    assert len(expected) == len(parts.rows) == parts.capture["total"]["count"]
    for line, head, row in zip(expected, parts.lines("heads"), parts.rows, strict=True):
        for side in ("request", "response"):
            assert head[side]["body"].pop("size") == line[side].pop("body")["size"]
            del head[side]["body"]
        assert head == line
        assert row[6] == line["request"]["method"]
        assert row[10] == line["response"]["status"]
    [summary] = [each for each in written if each["type"] == "summary"]
    assert parts.capture["summary"]["bytes"] == summary["bytes"]


def test_its_policy_allows_its_own_scripts_and_styles_and_nothing_else(tmp_path: Path) -> None:
    write_report(CAPTURES[0], tmp_path / "page.html")
    parts = Parts((tmp_path / "page.html").read_bytes())
    policy = dict(
        each.strip().split(" ", 1) for each in parts.meta["Content-Security-Policy"].split(";")
    )
    assert policy.pop("default-src") == "'none'"
    assert policy.pop("base-uri") == policy.pop("form-action") == "'none'"
    assert policy.pop("require-trusted-types-for") == "'script'"
    assert policy.pop("trusted-types") == "'none'"
    assert policy.pop("script-src").split() == [*map(_source, parts.texts["script"])]
    *styles, _of_charts = policy.pop("style-src").split()
    assert styles == [*map(_source, parts.texts["style"])]
    assert policy == {}


def _source(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("d3.min.js", "d3/dist/d3.min.js"),
        ("plot.umd.min.js", "@observablehq/plot/dist/plot.umd.min.js"),
    ],
)
def test_libraries_are_as_their_authors_published_them(ours: str, theirs: str) -> None:
    """``make .cache/report-libraries`` installs the pinned versions from npm."""
    assert (PAGE / ours).read_bytes() == (LIBRARIES / theirs).read_bytes()
    package = json.loads((LIBRARIES / theirs).parents[1].joinpath("package.json").read_text())
    assert f"v{package['version']} Copyright" in (PAGE / ours).read_text()[:80]
    assert package["version"] in (PAGE / "LICENSES.txt").read_text()


def test_no_data_can_end_its_element(tmp_path: Path) -> None:
    write_hostile(tmp_path / "hostile.pcapng")
    write_report(tmp_path / "hostile.pcapng", tmp_path / "page.html")
    whole = (tmp_path / "page.html").read_bytes()
    empty = b"".join(page({name: [] for name in ("capture", "rows", "heads", "bodies")}))
    assert whole.count(b"<") == empty.count(b"<")
    assert not {*range(32)} - {10} & {*whole}
    exchanges = [*decode(tmp_path / "hostile.pcapng")]
    assert len(Parts(whole).rows) == len(exchanges) == 20


def test_stalls_are_in_it_and_frames_are_in_no_other_output(tmp_path: Path) -> None:
    write_stalled(tmp_path / "h2.pcapng")
    pages, lines = tmp_path / "page.html", tmp_path / "out.json"
    command = ["read", str(tmp_path / "h2.pcapng"), "--json", "-o", str(lines)]
    assert main([*command, "--report", str(pages), "~u 3"]) == 0
    stalls = Parts(pages.read_bytes()).capture["stalls"]
    assert {stall["stream"] for stall in stalls} == {0, 3}  # both windows were used up
    for stall in stalls:
        assert (stall["sends"], stall["over"]) == ("server", True)
        assert WAITED_MS <= stall["ms"] < WAITED_MS + 10
    kinds = {json.loads(line)["type"] for line in lines.read_text().splitlines()}
    assert kinds == {"connection", "exchange", "summary"}


def test_a_filter_and_redaction_hold_for_it(tmp_path: Path) -> None:
    taker = Taker(tmp_path / "a.pcapng")
    secret = b"GET /a HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer s3cr3t\r\n\r\n"
    taker.take([(WRITE, secret), (READ, answer(b"ok")), (WRITE, get("/b")), (READ, answer(b"2"))])
    taker.close()
    write_report(tmp_path / "a.pcapng", tmp_path / "all.html", "~u /a$")
    parts = Parts((tmp_path / "all.html").read_bytes())
    assert [row[8] for row in parts.rows] == ["/a"]
    summary = parts.capture["summary"]
    assert (parts.capture["filter"], summary["shown"]) == ("~u /a$", 1)
    assert (summary["shown_connections"], summary["connections"]) == (1, 1)
    assert summary["shown_bytes"] == summary["bytes"] > 0
    assert "s3cr3t" in parts.data["heads"]
    write_report(tmp_path / "a.pcapng", tmp_path / "blank.html", "--redact")
    assert b"s3cr3t" not in (tmp_path / "blank.html").read_bytes()


def test_bodies_are_left_out_if_asked_to(tmp_path: Path) -> None:
    write_many(tmp_path / "a.pcapng", 60)
    write_report(tmp_path / "a.pcapng", tmp_path / "with.html")
    write_report(tmp_path / "a.pcapng", tmp_path / "without.html", "--report-bodies", "0")
    whole, bare = (Parts((tmp_path / name).read_bytes()) for name in ("with.html", "without.html"))
    assert '\\"item\\":' in whole.data["bodies"]
    assert '\\"item\\":' not in "".join(bare.data.values())
    assert [each and each.get("llm") for each in bare.lines("bodies")] == [None] * 63
    [*_, call] = whole.lines("bodies")
    assert call["llm"]["messages"][-1]["text"] == "Shall I offer a voucher?"
    assert call["llm"]["text"] == "Two orders are late: 1042 and 1077."


def _page_of(write: Callable[[Any], None], tmp_path: Path, **options: Any) -> Parts:
    path = tmp_path / "a.html"
    with path.open("wb") as file:
        report = sink(file, **options)
        write(report)
        report.close()
    return Parts(path.read_bytes())


def test_older_bodies_go_first_and_then_older_headers(tmp_path: Path) -> None:
    def write(report: Any) -> None:
        for number in range(100):
            asked = request(target=f"/{number}", body=b"x" * 1000)
            report.exchange(exchange(asked, response()))
        report.summary(Summary(exchanges=100))

    parts = _page_of(write, tmp_path, most_bytes=80_000)
    dropped = parts.capture["dropped"]
    assert (dropped["rows"], len(parts.rows)) == (0, 100)
    assert dropped["heads"] == 0
    assert 0 < dropped["bodies"] < 100
    bodies = parts.lines("bodies")
    assert len(bodies) == 100 - dropped["bodies"]
    assert len(parts.data["heads"] + parts.data["bodies"]) < 81_000
    parts = _page_of(write, tmp_path, most_bytes=20_000)
    dropped = parts.capture["dropped"]
    assert (dropped["bodies"], dropped["rows"]) == (100, 0)
    assert 0 < dropped["heads"] < 100
    heads = parts.lines("heads")
    assert [each["request"]["target"] for each in heads] == [
        f"/{number}" for number in range(dropped["heads"], 100)
    ]


def test_older_rows_go_with_their_connections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_exchanges, "MOST_ROWS", 10)

    def write(report: Any) -> None:
        for number in range(30):
            on = connection(number)
            report.exchange(exchange(request(target=f"/{number}"), response(), on))
            report.closed(on, 0)

    parts = _page_of(write, tmp_path)
    assert [row[8] for row in parts.rows] == [f"/{number}" for number in range(20, 30)]
    assert parts.capture["dropped"] == {"rows": 20, "heads": 20, "bodies": 20}
    assert len(parts.capture["connections"]) == 10
    assert {str(row[0]) for row in parts.rows} == {*parts.capture["connections"]}
    assert parts.capture["total"]["count"] == 30
    assert parts.capture["summary"] is None


@pytest.mark.heavy
def test_memory_is_bounded(tmp_path: Path) -> None:
    """20,000 exchanges of their own connections, with 4 KiB each, in a report of 2 MiB."""
    tracemalloc.start()

    def write(report: Any) -> None:
        asked = request(headers=[("X-Large", "x" * 2000)], body=b"y" * 2000)
        for number in range(20_000):
            on = connection(number)
            report.exchange(exchange(replace(asked, target=f"/{number}"), response(), on))
            report.closed(on, 0)

    with (tmp_path / "a.html").open("wb") as file:
        report = sink(file, most_bytes=2 << 20)
        write(report)
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        report.close()
    assert held < 30 << 20, held


def test_large_headers_are_cut_and_it_is_said() -> None:
    fields: list[Any] = [(f"x-{number}", "v" * 3000) for number in range(200)]
    large = exchange(request(target="/" + "t" * 5000, headers=fields), response())
    head = json.loads(Details(0).head(large))
    assert len(json.dumps(head)) < 64 << 10
    assert head["request"]["headers"][0] == ["x-0", "v" * 500 + "… (cut)"]
    assert head["request"]["headers"][-1] == ["… (cut)", "150 more"]


@pytest.mark.parametrize(
    ("data", "headers", "shown"),
    [
        (b"text", [], {"kept": 4, "whole": True, "text": "text"}),
        (b"\xff\x00", [], {"kept": 2, "whole": True, "base64": "/wA="}),
        (b"x" * 200, [], {"kept": 100, "whole": False, "text": "x" * 100}),
        ("é".encode() * 80, [], {"kept": 100, "whole": False, "text": "é" * 50}),
        (
            gzip.compress(b"z" * 300, mtime=0),
            [("Content-Encoding", "gzip")],
            {"kept": 100, "whole": False, "text": "z" * 100},
        ),
        (
            b"no gzip",
            [("Content-Encoding", "gzip")],
            {"kept": 7, "whole": False, "text": "no gzip"},
        ),
    ],
)
def test_a_body_is_text_or_base64(data: bytes, headers: Any, shown: dict[str, Any]) -> None:
    body = body_object(request(body=data).body, Headers(headers), 100)
    error = body.pop("error", None)
    assert body == {"size": len(data), **shown}
    assert (error is None) == (data != b"no gzip")


def test_it_says_which_groups_are_new() -> None:
    groups = lines_by(BY)
    for number in range(300):
        for path in ("/orders", "/audit")[: 2 if number >= 200 else 1]:
            made = outcome(START_NS + number * 10**9, 20_000_000)
            groups.add(made._replace(path=path))
    changes = changes_object(groups)
    [said] = changes["said"]
    assert (said["what"], said["group"]["path"], said["worse"]) == ("new", "/audit", False)
    assert (said["since_us"], said["until_us"]) == ((START_NS + 200 * 10**9) // 1000, None)
    assert said["before"] == "new: "
    assert said["after"].strip() == "(100 in 99 s, none in the 3 min before)"
    assert changes["lines"][said["line"]]["group"] == said["group"]


def test_it_says_what_changed_and_which_raw_path_did(tmp_path: Path) -> None:
    slow_ns = write_slow_path(tmp_path / "a.pcapng")
    write_report(tmp_path / "a.pcapng", tmp_path / "page.html")
    capture = Parts((tmp_path / "page.html").read_bytes()).capture
    failing, slow = capture["changes"]["said"]
    assert (failing["what"], failing["group"]["path"]) == ("errors", "/cart")
    assert failing["before"] < 0.02 < 0.1 < failing["after"]
    assert slow["group"] == {
        "comm": "shop",
        "role": "server",
        "host": "shop.example.com",
        "method": "POST",
        "path": "/reserve/sku-{}",
    }
    assert (slow["what"], slow["quantile"], slow["until_us"]) == ("duration", "p50", None)
    assert (slow["cause"], slow["paths"], slow["worse"]) == ("only", [SLOW_PATH], True)
    assert slow["before"] < 40 < 1500 < slow["after"]
    assert 0 <= slow["since_us"] + slow["slice_us"] - slow_ns / 1000 < 10e6
    line = capture["changes"]["lines"][slow["line"]]
    assert line["group"] == slow["group"]
    assert len(line["slices"]) <= 90
    count, errors = (sum(each[column] for each in line["slices"]) for column in (1, 2))
    paths = {row["key"]: row for row in capture["groups"]["path"]}
    assert (count, errors) == (paths["/reserve/sku-{}"]["count"], 0)

    raw = capture["raw_paths"]
    assert [*raw] == ["/reserve/sku-{}", "/v1/orders/{}"]  # /cart is one
    rows = raw["/reserve/sku-{}"]["rows"]
    assert rows[0][0] == SLOW_PATH
    assert len(rows) == 10
    assert sum(row[1] for row in rows) + raw["/reserve/sku-{}"]["others"] == count
    assert rows[0][5] == paths["/reserve/sku-{}"]["total"]["max"]


def test_a_short_capture_says_nothing_of_changes(tmp_path: Path) -> None:
    taker = Taker(tmp_path / "a.pcapng")
    taker.take([(WRITE, get("/b")), (READ, answer(b"2"))])
    taker.close()
    write_report(tmp_path / "a.pcapng", tmp_path / "page.html")
    capture = Parts((tmp_path / "page.html").read_bytes()).capture
    assert capture["changes"] == {"said": [], "left_out": 0, "unsearched": None, "lines": []}
    assert capture["raw_paths"] == {}
