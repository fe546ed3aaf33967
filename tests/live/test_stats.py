"""Statistics of a live capture: they count exactly what clients did."""

import subprocess
import sys
from collections import Counter
from datetime import datetime
from pathlib import Path

import pytest

from tests.live import sniffer
from tests.live.checks import Sniff, assert_passed, assert_whole, run_under
from tests.live.running import requests
from tests.live.test_model_calls import CALLS, MODELS, call, captured_calls
from tests.workload.curl import Request, curl, results
from tests.workload.processes import PATIENCE_S, PROGRAMS
from tests.workload.servers import Certificate, Server

VERSIONS = {"http/1.1": ("--http1.1",), "http/2": ("--http2", "--parallel", "--parallel-max", "9")}


def pattern(request: Request) -> str:
    return "/bytes/{}" if request.target.startswith("/bytes/") else request.target


def microseconds(span_ms: float) -> int:
    """Return a span in whole units: 0.07 and 0.069 differ by a little more than 0.001."""
    return round(span_ms * 1000)


@pytest.mark.parametrize("version", VERSIONS)
def test_json(version: str, server: Server, certificate: Certificate, tmp_path: Path) -> None:
    asked = [*requests(53), *(Request(f"/{word}") for word in ("hello", "world", "hello"))]
    command = curl(server.url, asked, certificate, tmp_path, *VERSIONS[version])
    by = ("--group-by", "host,method,path,status,protocol,comm")
    ran = run_under(tmp_path, *command, options=("--stats", *by))

    assert_passed(ran.captured, results(ran.stdout.decode(), asked), role="client")
    assert_whole(ran.captured)
    *rows, whole = ran.captured.of("statistics")
    host = server.url.removeprefix("https://")
    assert {tuple(row["group"].values()): row["exchanges"] for row in rows} == Counter(
        (host, each.method, pattern(each), 200, version, "curl") for each in asked
    )
    of_path = {row["group"]["path"]: row for row in rows}
    sent_bytes = sum(len(each.body) for each in asked)
    asked_bytes = sum(int(each.target.rsplit("/", 1)[1]) for each in asked if "s/" in each.target)
    assert of_path["/echo"]["request_bytes"] == of_path["/echo"]["response_bytes"] == sent_bytes > 0
    assert of_path["/bytes/{}"]["response_bytes"] == asked_bytes > 0
    assert (whole["exchanges"], whole["errors"], whole["missing_bytes"]) == (len(asked), 0, 0)
    assert whole["statuses"] == {"2xx": len(asked)}
    durations = sorted(microseconds(each["duration_ms"]) for each in ran.captured.exchanges)
    spans = whole["total_ms"]
    assert (spans["count"], microseconds(spans["max"])) == (len(asked), durations[-1])
    for name, rank in (("p50", 28), ("p90", 51), ("p99", 56)):  # of 56, counted from 1
        found = microseconds(spans[name])
        exact = durations[rank - 1]
        # Both are rounded to microseconds beside the 1 % of a sketch.
        assert found == pytest.approx(exact, abs=1 + exact / 100)


def test_the_table_alone(server: Server, certificate: Certificate, tmp_path: Path) -> None:
    asked = requests(20)
    command = curl(server.url, asked, certificate, tmp_path, "--http1.1")
    done = subprocess.run(
        [
            *(sniffer.SSLSNIFF, "--loader", sniffer.LOADER, "-q", "--stats"),
            *("--group-by", "method,path", "--", *command),
        ],
        capture_output=True,
        text=True,
        timeout=4 * PATIENCE_S,
    )
    assert done.returncode == 0
    lines = [line.split() for line in done.stderr.splitlines()]
    at = lines.index(["first", "byte", "total"])
    assert [(line[0], *line[-2:]) for line in lines[at + 2 : at + 4]] == [
        ("10", "GET", "/bytes/{}"),
        ("10", "POST", "/echo"),
    ]
    assert (lines[at + 4][0], lines[at + 4][-1]) == ("20", "(all)")
    assert done.stderr.splitlines()[-1].startswith("20 exchanges, 1 connection, ")
    assert done.stderr.endswith(" 0 bytes lost\n")


@pytest.mark.heavy
def test_models(certificate: Certificate, sniff: Sniff) -> None:
    """Calls and tokens by model are those that the SDKs were told."""
    calls, tokens = Counter[str](), Counter[tuple[str, int]]()
    with captured_calls(
        "model_server.py", certificate, sniff, "--stats", "--group-by", "model"
    ) as (port, running):
        for sdk, streamed in CALLS:
            arguments = [sdk, *(["stream"] if streamed else [])]
            answer = call("model_client.py", certificate, port, *arguments)
            calls[answer["model"]] += 1
            for which, count in enumerate(answer["tokens"]):
                tokens[answer["model"], which] += count
        running.until(len(CALLS), "exchange")
        captured = running.stop()
    assert_whole(captured)
    *rows, whole = captured.of("statistics")
    assert len(MODELS) >= len(rows) > 1
    assert {row["group"]["model"]: row["model_calls"] for row in rows} == calls
    for row in rows:
        model = row["group"]["model"]
        assert row["exchanges"] == row["model_calls"]
        assert row["input_tokens"] == tokens[model, 0] > 0
        assert row["output_tokens"] == tokens[model, 1] > 0
    assert whole["input_tokens"] == sum(row["input_tokens"] for row in rows)


def test_since_when_and_which_path(certificate: Certificate, tmp_path: Path) -> None:
    """A service becomes slow for one path: statistics say since when, and that it is this one."""
    program: list[str | Path] = [sys.executable, PROGRAMS / "python/slow_path.py"]
    files = [certificate.certificate, certificate.key]
    by = ("--group-by", "role,method,path")
    ran = run_under(tmp_path, *program, *files, "1600", options=("--quiet", "--stats", *by))

    slow_ns = int(ran.stdout)
    rows = {row["group"].get("role"): row for row in ran.captured.of("statistics")}
    for role in ("server", "client"):
        assert rows[role]["exchanges"] == 1600
        [change] = rows[role]["changes"]
        assert (change["what"], change["quantile"], change["until"]) == ("duration", "p50", None)
        assert (change["cause"], change["raw_paths"]) == ("only", ["/reserve/sku-17"])
        assert change["before_ms"] < 700 < change["after_ms"]
        since = datetime.fromisoformat(change["since"]).timestamp()
        slice_s = change["slice_ms"] / 1000
        assert abs(since + slice_s / 2 - slow_ns / 1e9) <= 1.5 * slice_s
    assert rows[None]["changes"] is None
