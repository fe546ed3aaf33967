"""Blanked secrets in lines, JSON, statistics and captures that are read again."""

import io
import json
from pathlib import Path

import pytest

from sslsniff.cli.main import main
from sslsniff.core.redacted import NO_MESSAGE, RedactedSecret, SecretTotals
from sslsniff.forms.json.short_lines import ShortLines
from sslsniff.forms.text.summary import redaction_line
from sslsniff.screen.captured.rebuilt_exchanges import exchange_of
from sslsniff.statistics.outcome import Outcome
from tests.unit.captures import Taker
from tests.unit.exchanges import exchange, request, response
from tests.unit.redaction.traffic import PATTERN, SECRETS, http1, http2

NAMED = f"(?P<numbers>{PATTERN})"
Capture = pytest.CaptureFixture[str]


@pytest.fixture(params=["http1", "http2"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "source.pcapng"
    taker = Taker(path)
    taker.take({"http1": http1, "http2": http2}[request.param](), alpn=None)
    taker.close()
    return path


def shown(capfd: Capture, *arguments: object) -> tuple[str, str]:
    assert main([*map(str, arguments)]) == 0
    out, errors = capfd.readouterr()
    return out, errors


def objects(capfd: Capture, *arguments: object) -> list[dict[str, object]]:
    return [json.loads(line) for line in shown(capfd, *arguments, "--json")[0].splitlines()]


def redacted(lines: list[dict[str, object]]) -> str:
    return json.dumps([each.get("redacted") for each in lines])


@pytest.mark.parametrize("layout", ["null-tls", "plain"])
def test_a_capture_file_has_what_was_blanked(
    layout: str, source: Path, tmp_path: Path, capfd: Capture
) -> None:
    copy, again = tmp_path / "copy.pcapng", tmp_path / "again.pcapng"
    redact = ("--redact", "--redact-pattern", NAMED)
    writes = ("--pcap-layout", layout, "--pcap", copy, "--print")
    first = objects(capfd, "read", source, *redact, *writes)
    assert redacted(first).count("fingerprint") > 20
    read = objects(capfd, "read", copy)
    assert [each.get("redacted") for each in read] == [each.get("redacted") for each in first]
    redacted_again = objects(capfd, "read", copy, *redact, "--pcap", again, "--print")
    assert redacted(redacted_again) == redacted(first)
    assert redacted(objects(capfd, "read", again)) == redacted(first)
    raw = copy.read_bytes() + again.read_bytes()
    assert [secret for secret in SECRETS if secret in raw] == []


def test_the_summary_counts_by_name(source: Path, capfd: Capture) -> None:
    _, errors = shown(capfd, "read", source, "--redact", "--redact-pattern", NAMED)
    [line] = [line for line in errors.splitlines() if "redacted: " in line]
    assert "userinfo" in line
    assert "n (numbers)" in line
    summary = objects(capfd, "read", source, "--redact", "--redact-pattern", NAMED)[-1]
    counts = summary["redacted"]
    assert isinstance(counts, list)
    assert f"redacted: {sum(each['count'] for each in counts)} secrets: " in line
    assert {"name": "n", "pattern": "numbers", "count": 2} in counts or {
        "name": "n", "pattern": "numbers", "count": 4
    } in counts  # fmt: skip


def test_lines_name_what_patterns_found_and_v_names_all(source: Path, capfd: Capture) -> None:
    options = ("read", source, "--redact", "--redact-pattern", NAMED)
    lines, _ = shown(capfd, *options)
    assert " secrets: " in lines
    assert "n #" in lines
    assert "authorization #" not in lines
    lines, _ = shown(capfd, *options, "-v")
    assert "  * request header: cookie #" in lines
    assert "  * request body: n #" in lines
    assert ", 2 times" not in lines or "(numbers)" in lines
    plain, errors = shown(capfd, "read", source, "-v")
    assert "  * " not in plain
    assert "redacted" not in errors


def test_filters_and_statistics_know_them(source: Path, capfd: Capture) -> None:
    options = ("--redact", "--redact-pattern", NAMED)
    shown_lines, _ = shown(capfd, "read", source, "~redacted ^numbers$", *options)
    assert " shown of " in shown_lines
    table, _ = shown(capfd, "stats", source, "--group-by", "secret", *options)
    assert "n #" in table


def test_json_has_all_of_them() -> None:
    made = exchange(request(), response())
    made.redacted = {RedactedSecret("request header", f"x-{n}", None, "0" * 8): 1 for n in range(5)}
    assert Outcome.of(made).secret == "x-0 #00000000, x-1 #00000000, x-2 #00000000, 2 more"
    made.redacted[RedactedSecret("request body", "a", "p", None)] = 2
    written = io.BytesIO()
    ShortLines(written).exchange(made)
    line = json.loads(written.getvalue())
    assert Outcome.of_json(line).secret == Outcome.of(made).secret == "a"
    assert exchange_of(line).redacted == made.redacted
    assert [(each["name"], each["count"]) for each in line["redacted"]][-2:] == [
        ("x-4", 1),
        ("a", 2),
    ]


@pytest.mark.heavy  # as all that needs the screen's packages
def test_the_screen_names_them() -> None:
    from sslsniff.screen.captured.capture_store import Store
    from sslsniff.screen.contents.exchange_panes import exchange_lines

    made = exchange(request(), response())
    made.redacted = {RedactedSecret("request body", "NPM_AUTH", "npm", "420c1d66"): 2}
    written = io.BytesIO()
    sink = ShortLines(written)
    sink.opened(made.connection, made.started_ns)
    sink.exchange(made)
    store = Store()
    for line in written.getvalue().splitlines(keepends=True):
        store.feed(line)
    [row] = store.rows.values()
    assert row.line is not None
    lines = [line.text for line in exchange_lines(row, json.loads(row.line))]
    assert "blanked: request body: NPM_AUTH #420c1d66 (npm), 2 times" in lines


def test_the_most_frequent_are_named() -> None:
    totals = SecretTotals()
    assert redaction_line(totals, 0) == "redacted: 0 secrets"
    for number in range(2000):
        secret = RedactedSecret("request body", f"f{number}", None, None)
        totals.add({NO_MESSAGE: {secret: 3 if number == 7 else 1}})
    assert len(totals.counts) <= 1025
    line = redaction_line(totals, 12)
    assert line.startswith("redacted: 2,002 secrets: 3 f7, 1 f0, 1 f1, 1 f10, ")
    assert line.endswith("1 f1001, 1 f1002, 1,992 others; 12 bytes that cannot be parsed, too")
