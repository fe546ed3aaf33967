"""Statistics as people and programs see them."""

import io
import json
from datetime import datetime, timedelta
from typing import Any

import pytest

from sslsniff.core.escaping import escape
from sslsniff.core.model import Address, Exchange
from sslsniff.core.process import Process
from sslsniff.core.sink import Summary
from sslsniff.decoders.databases.statement import Statement
from sslsniff.decoders.inner.models.model_call import ModelCall, RunPlace, TokenUsage
from sslsniff.decoders.messages import Side
from sslsniff.outputs.statistics.statistics_json import StatisticsJson
from sslsniff.outputs.statistics.statistics_text import MOST_ROWS, StatisticsTable
from sslsniff.statistics.groups import MOST_GROUPS, ORDERS
from sslsniff.statistics.options import SORT_BY
from tests.unit.exchanges import START_NS, connection, exchange, request, response

HOSTILE = "\x1b]0;gone\x07\r\n\u202e\u4f60"


def orders() -> list[Exchange]:
    """Return 12 exchanges of 5 ms, which began 10 ms apart: nine orders, three of them failed."""
    made = [
        exchange(request(target=f"/orders/{n}?a"), response(503 if n < 3 else 200, body=b"12345"))
        for n in range(9)
    ]
    made += [exchange(request("POST", "/", body=b"abc"), response(404)) for _ in range(2)]
    made.append(exchange(request(target="/events"), response(), error="capture ended"))
    for number, each in enumerate(made):
        each.started_ns += number * 10_000_000
        each.ended_ns = each.started_ns + 5_000_000
        each.first_byte_ns = each.started_ns + 3_000_000
    return made


def table(made: list[Exchange], *by: str, columns: int | None = None, order: str = "count") -> str:
    out = io.StringIO()
    sink = StatisticsTable(out, by, order, columns=lambda: columns)
    for each in made:
        sink.exchange(each)
    sink.summary(Summary(duration_ns=2_000_000_000))
    sink.flush()
    return out.getvalue()


def objects(made: list[Exchange], *by: str, order: str = "count") -> list[dict[str, Any]]:
    out = io.BytesIO()
    sink = StatisticsJson(out, by, order)
    for each in made:
        sink.exchange(each)
    sink.summary(Summary(duration_ns=2_000_000_000))
    sink.flush()
    lines = out.getvalue().decode().splitlines()
    assert all(line.isprintable() for line in lines)
    return [json.loads(line) for line in lines]


def test_a_line_each() -> None:
    assert table(orders()) == (
        "                              first byte                          total\n"
        "count  rate/s  errors  bytes      p50      p90      p99      max      p50      p90"
        "      p99      max  host         method  path\n"
        "    9    4.50       3   45 B  3.00 ms  3.00 ms  3.00 ms  3.00 ms  5.00 ms  5.00 ms"
        "  5.00 ms  5.00 ms  example.org  GET     /orders/{}\n"
        "    2    1.00       2    6 B  3.00 ms  3.00 ms  3.00 ms  3.00 ms  5.00 ms  5.00 ms"
        "  5.00 ms  5.00 ms  example.org  POST    /\n"
        "    1    0.50       0    0 B  3.00 ms  3.00 ms  3.00 ms  3.00 ms        -        -"
        "        -        -  example.org  GET     /events\n"
        "   12    6.00       5   51 B  3.00 ms  3.00 ms  3.00 ms  3.00 ms  5.00 ms  5.00 ms"
        "  5.00 ms  5.00 ms  (all)\n"
        "status: 7 2xx, 2 4xx, 3 5xx\n"
        "1 exchange still open at the end\n"
        "times are known of 12 first bytes and 11 ends: of others, the request, the response or"
        " the end was not seen\n"
    )


def test_three_lines_each_on_80_columns() -> None:
    lines = table(orders(), columns=80).splitlines()
    assert lines[:5] == [
        "host  method  path",
        "count  rate/s  errors  bytes                  p50      p90      p99      max",
        "example.org  GET  /orders/{}",
        "    9    4.50       3   45 B  first byte  3.00 ms  3.00 ms  3.00 ms  3.00 ms",
        "                              total       5.00 ms  5.00 ms  5.00 ms  5.00 ms",
    ]
    assert lines[11:14] == [
        "(all)",
        "   12    6.00       5   51 B  first byte  3.00 ms  3.00 ms  3.00 ms  3.00 ms",
        "                              total       5.00 ms  5.00 ms  5.00 ms  5.00 ms",
    ]


@pytest.mark.parametrize("columns", [80, 100, 200])
def test_lines_fit_the_terminal(columns: int) -> None:
    made = orders()
    made.append(exchange(request(target="/" + "long-and-" * 100), response()))
    made.append(exchange(request(target="/", authority=HOSTILE * 20), response()))
    for each in made:
        each.connection.process = Process(7, HOSTILE)
        each.ended_ns = each.started_ns + 456_789_012_345
    lines = table(made, "host", "comm", "path", columns=columns).splitlines()
    assert max(map(len, lines[:-1])) <= columns


def test_as_json() -> None:
    first, second, third, whole = objects(orders())
    assert first == {
        "type": "statistics",
        "group": {"host": "example.org", "method": "GET", "path": "/orders/{}"},
        "exchanges": 9,
        "rate": 4.5,
        "errors": 3,
        "open": 0,
        "statuses": {"2xx": 6, "5xx": 3},
        "request_bytes": 0,
        "response_bytes": 45,
        "missing_bytes": 0,
        "first_byte_ms": {"count": 9, "p50": 3.0, "p90": 3.0, "p99": 3.0, "max": 3.0},
        "total_ms": {"count": 9, "p50": 5.0, "p90": 5.0, "p99": 5.0, "max": 5.0},
        "model_calls": 0,
        "calls_with_tokens": 0,
        "input_tokens": 0,
        "output_tokens": 0,
        "statements": {"ok": 0, "failed": 0},
        "changes": [],
        "cached_tokens": 0,
        "cache_written_tokens": 0,
        "calls_with_cost": 0,
        "cost": None,
        "currency": None,
        "calls_without_price": {},
        "model_ms": 0.0,
        "tools_ms": {},
        "mcp_ms": {},
    }
    assert (second["exchanges"], second["group"]["method"]) == (2, "POST")
    assert third["open"] == 1
    assert third["total_ms"] == {"count": 0, "p50": None, "p90": None, "p99": None, "max": None}
    assert (whole["group"], whole["exchanges"], whole["errors"]) == ({}, 12, 5)


def test_no_exchanges() -> None:
    assert table([]) == "no exchanges\n"
    [whole] = objects([])
    assert (whole["group"], whole["exchanges"], whole["statuses"]) == ({}, 0, {})
    assert whole["total_ms"]["max"] is None


def test_what_is_not_known() -> None:
    made = [exchange(None, None), exchange(request(), response(200))]
    made[0].connection.process = Process(0, "")
    made[0].connection.role = None
    lines = table(made, "host", "comm", "status").splitlines()
    assert lines[3].split()[-3:] == ["-", "-", "-"]
    assert objects(made, "host", "status")[1]["group"] == {"host": None, "status": None}
    assert "status: 1 2xx, 1 none" in lines
    assert objects(made, "host")[-1]["statuses"] == {"none": 1, "2xx": 1}


def statement(error: str | None = None, *, is_answered: bool = True) -> Exchange:
    made = exchange(None, None)
    made.statement = Statement("postgresql", "SELECT", "SELECT 1", error=error)
    made.first_byte_ns = made.ended_ns if is_answered else None
    return made


def test_a_statement_is_ok_or_failed() -> None:
    made = [statement(), statement(), statement("no such table"), statement(is_answered=False)]
    made.append(exchange(request(), response(200)))
    lines = table(made, "status").splitlines()
    counts = {line.split()[-1]: line.split()[0] for line in lines[2:6]}
    assert counts == {"ok": "2", "failed": "1", "200": "1", "-": "1"}
    assert "status: 1 2xx, 1 failed, 1 none, 2 ok" in lines
    first, *_, whole = objects(made, "status")
    assert (first["group"], first["statements"]) == ({"status": "ok"}, {"ok": 2, "failed": 0})
    # Statements have no response, so none of its classes.
    assert whole["statuses"] == {"2xx": 1, "none": 4}
    assert whole["statements"] == {"ok": 2, "failed": 1}


def test_hops_are_told_apart_by_side_and_server() -> None:
    """A proxy, watched: it serves on one port and asks another server; and that server."""
    made = []
    for role, near, far in (
        (Side.SERVER, 443, 40001),
        (Side.CLIENT, 40002, 8443),
        (Side.SERVER, 8443, 40002),
    ):
        hop = connection()
        hop.role, hop.sni = role, "shop"
        hop.local, hop.remote = Address("::1", near), Address("::1", far)
        made.append(exchange(request(), response(), hop))
    groups = [each["group"] for each in objects(made, "role", "server", "sni")]
    assert groups == [
        {"role": "client", "server": "[::1]:8443", "sni": "shop"},
        {"role": "server", "server": "[::1]:443", "sni": "shop"},
        {"role": "server", "server": "[::1]:8443", "sni": "shop"},
        {},
    ]


def test_bytes_that_were_lost() -> None:
    lossy = exchange(request(), response(body=b"12345"))
    assert lossy.response is not None
    lossy.response.body.missing = 2
    assert "2 bytes of bodies are missing" in table([lossy])
    assert objects([lossy])[0]["missing_bytes"] == 2


def test_hostile_names_are_escaped() -> None:
    hostile = exchange(request(HOSTILE, f"/{HOSTILE}", authority=HOSTILE), response())
    hostile.connection.process = Process(7, HOSTILE)
    hostile.error, hostile.protocol = HOSTILE, HOSTILE
    by = ("host", "path", "comm", "protocol", "method", "error")
    for columns in (None, 80):
        text = table([hostile], *by, columns=columns)
        assert all(char == "\n" or char.isprintable() for char in text)
        assert "\\x1b" in text
    assert objects([hostile], *by)[0]["group"]["comm"] == HOSTILE


def test_model_calls() -> None:
    made = orders()
    for each, model in zip(made, ["gpt-5", "gpt-5", "claude"], strict=False):
        each.model_call = ModelCall("openai.chat", None, model, usage=TokenUsage(100, 20))
    text = table(made, "model")
    assert "tokens in  out" in text
    row = next(line.split() for line in text.splitlines() if line.endswith("gpt-5"))
    assert (row[0], row[5:7], row[-1]) == ("2", ["200", "40"], "gpt-5")
    assert "  300 tokens in, 60 out  total" in table(made, "model", columns=80)
    for each in made[:3]:
        assert each.model_call is not None
        each.model_call.usage.input = 10**12
    lines = table(made, "model", columns=80).splitlines()
    figures = [line for line in lines[1:] if line.endswith((" ms", "max"))]
    assert len({len(line) for line in figures}) == 1
    assert max(map(len, lines[:-3])) <= 80
    for each in made[:3]:
        assert each.model_call is not None
        each.model_call.usage.input = 100
    gpt = next(each for each in objects(made, "model") if each["group"] == {"model": "gpt-5"})
    assert (gpt["model_calls"], gpt["input_tokens"], gpt["output_tokens"]) == (2, 200, 40)


def test_a_row_without_model_calls_says_no_number() -> None:
    made = orders()[:2]
    made[0].model_call = ModelCall("openai.chat", None, "m", usage=TokenUsage(100, 20))
    rows = [line.split() for line in table(made, "model").splitlines() if line.endswith(" -")]
    assert [row[5:7] for row in rows] == [["-", "-"]]


def test_cached_tokens() -> None:
    made = orders()[:2]
    for each, written in zip(made, [0, 128], strict=True):
        usage = TokenUsage(100, 20, cached=7, written=written)
        each.model_call = ModelCall("openai.chat", None, "m", usage=usage)
    lines = table(made, "model").splitlines()
    assert "tokens in  out  cached  written" in lines[1]
    assert lines[2].split()[5:9] == ["200", "40", "14", "128"]
    [group, _] = objects(made, "model")
    assert (group["cached_tokens"], group["cache_written_tokens"]) == (14, 128)


def test_totals_say_of_how_many_calls_they_are() -> None:
    made = orders()[:4]
    usages = [TokenUsage(1000, 20), TokenUsage(750), TokenUsage(output=1), TokenUsage()]
    for each, usage in zip(made, usages, strict=True):
        each.model_call = ModelCall("openai.chat", None, "m", usage=usage)
    said = "1,750 tokens in, 21 out (3 of 4 calls): of others, the server gave no figures"
    assert said in table(made, "model").splitlines()
    assert (objects(made, "model")[0]["calls_with_tokens"]) == 3
    assert "tokens in," not in table(made[:3], "model")


def test_runs_of_agents() -> None:
    """By run there are the times in the model and in tools, which are named."""
    made = orders()[:4]
    places = [
        RunPlace(10, 1),
        RunPlace(2, 1),
        RunPlace(10, 2, ("read_file", HOSTILE), 1_500_000_000),
        RunPlace(10, 3, ("read_file",), 20_000_000, 15_300_000),
    ]
    for each, place in zip(made, places, strict=True):
        each.model_call = ModelCall("openai.chat", None, "m", usage=TokenUsage(1, 1), run=place)
    lines = table(made, "run").splitlines()
    assert "tokens in  out  in model  in tools" in lines[1]
    ten, two = lines[2].split(), lines[3].split()
    assert (ten[0], ten[5:11], ten[-1]) == ("3", ["3", "3", "15.0", "ms", "1.52", "s"], "10")
    assert (two[0], two[-1]) == ("1", "2")
    named = ", ".join(("read_file", escape(HOSTILE)))
    assert (
        f"run 10: tools between calls: {named} 1.50 s, read_file 20.0 ms (15.3 ms of it by MCP)"
        in (lines)
    )
    assert "in tools" not in table(made, "model")
    narrow = table(made, "run", columns=80).splitlines()
    assert "3 tokens in, 3 out, 15.0 ms in model, 1.52 s in tools" in narrow
    assert max(map(len, narrow[: narrow.index("status: 1 2xx, 3 5xx") - 1])) <= 80
    first, second, _ = objects(made, "run")
    assert (first["group"], first["model_ms"]) == ({"run": 10}, 15.0)
    assert first["tools_ms"] == {f"read_file, {HOSTILE}"[:100]: 1500.0, "read_file": 20.0}
    assert first["mcp_ms"] == {"read_file": 15.3}
    assert (second["group"], second["tools_ms"]) == ({"run": 2}, {})


def test_a_cache_that_is_written_and_never_read() -> None:
    made = orders()[:5]
    cache = ((1, None, 40_000), (1, 0, 1_200), (2, 7, 500), (2, 0, 0), (3, 0, 9))
    for each, (run, read, written) in zip(made, cache, strict=True):
        usage = TokenUsage(1000, 20, cached=read, written=written)
        place = RunPlace(run, 1)
        each.model_call = ModelCall("anthropic", None, "m", usage=usage, run=place)
    by_run = [line for line in table(made, "run").splitlines() if "cache" in line]
    assert by_run[1:] == ["run 1: cache written 41,200 tokens, never read in this capture"]
    assert "never read" not in table(made, "model")
    assert "never read" not in table(made[:1], "model")
    said = "cache written 41,200 tokens, never read in this capture"
    assert said in table(made[:2], "model").splitlines()


def test_groups_of_the_same_size_are_in_order() -> None:
    made = orders()[:4]
    for each, pid in zip(made, (100, 20, 3, 0), strict=True):
        each.connection = connection(pid=pid)
    assert [each["group"]["pid"] for each in objects(made, "pid")[:-1]] == [3, 20, 100, None]


def test_too_many_groups_join_in_others() -> None:
    made = [exchange(request(authority=f"host-{n}"), response()) for n in range(MOST_GROUPS + 5)]
    lines = table(made, "host").splitlines()
    assert lines[-3].split()[0] == str(MOST_GROUPS + 5)
    assert (lines[-4].split()[0], lines[-4].split()[-1]) == ("5", "(others)")
    assert lines[-2] == (
        "(others): the first 1000 groups have rows of their own; these 5 exchanges are in none of"
        " them"
    )
    *_, others, whole = objects(made, "host")
    assert (others["group"], others["exchanges"]) == (None, 5)
    assert whole["exchanges"] == MOST_GROUPS + 5
    # A terminal has the largest groups only.
    lines = table(made, "host", columns=200).splitlines()
    assert len(lines) == 2 + MOST_ROWS + 4
    assert "976 more groups with 980 exchanges: all are in a file, a pipe, and JSON" in lines


@pytest.mark.parametrize(
    ("order", "first"),
    [("count", "many"), ("errors", "failed"), ("bytes", "large"), ("p50", "slow")],
)
def test_order(order: str, first: str) -> None:
    made = [exchange(request(authority="many"), response()) for _ in range(3)]
    made.append(exchange(request(authority="failed"), response(500)))
    made.append(exchange(request(authority="large"), response(body=b"123")))
    made.append(exchange(request(authority="slow"), response()))
    made[-1].ended_ns = START_NS + 10**9
    assert objects(made, "host", order=order)[0]["group"] == {"host": first}
    assert table(made, "host", order=order).splitlines()[2].endswith(first)


def test_every_order_can_be_asked_for() -> None:
    assert SORT_BY.choices == tuple(ORDERS)


def slow_orders() -> list[Exchange]:
    """Return 400 exchanges; from the 240th on, those of /orders/7 take 2 s."""
    made = []
    for number in range(400):
        each = exchange(request(target=f"/orders/{number % 5 + 4}"), response())
        each.started_ns += number * 100_000_000
        is_slow = number >= 240 and number % 5 == 3
        each.ended_ns = each.started_ns + (2_000_000_000 if is_slow else 20_000_000)
        each.first_byte_ns = each.ended_ns
        made.append(each)
    return made


def test_what_changed_comes_first() -> None:
    first, empty, *_ = table(slow_orders()).splitlines()
    said = "  example.org GET /orders/{}  22 ms -> 2.0 s (only /orders/7)"
    assert first.endswith(said)
    shown = datetime.strptime(first.removesuffix(said), "since %H:%M:%S.%f")
    slow = datetime.fromtimestamp((START_NS + 24_300_000_000) / 1e9)
    assert abs(slow.replace(year=1900, month=1, day=1) - shown) < timedelta(seconds=0.6)
    assert empty == ""
    assert not table(orders()).startswith("since")
    narrow = table(slow_orders(), columns=60).splitlines()
    assert " ".join(" ".join(narrow[:2]).split()) == " ".join(first.split())
    assert max(map(len, narrow[:2])) <= 60


def test_changes_as_json() -> None:
    group, whole = objects(slow_orders())
    [change] = group["changes"]
    since_ns = datetime.fromisoformat(change.pop("since")).timestamp() * 1e9
    assert abs(since_ns - START_NS - 24.3e9) <= change["slice_ms"] * 1e6
    assert change.pop("before_ms") == pytest.approx(20, rel=0.1)
    assert change.pop("after_ms") == pytest.approx(2000, rel=0.1)
    assert change.pop("slice_ms") == pytest.approx(268.435)
    assert change == {
        "what": "duration",
        "until": None,
        "quantile": "p50",
        "cause": "only",
        "raw_paths": ["/orders/7"],
    }
    assert whole["changes"] is None
    by_raw_path = objects(slow_orders(), "raw_path")
    assert {each["group"]["raw_path"] for each in by_raw_path[:-1]} == {
        f"/orders/{number}" for number in range(4, 9)
    }
    changed = {each["group"].get("raw_path") for each in by_raw_path if each["changes"]}
    assert changed == {"/orders/7"}


def released_orders() -> list[Exchange]:
    """Return 40 s of exchanges; from 24 s on, each order has an audit."""
    made = []
    for number in range(400):
        for target in ("/orders", "/audit")[: 2 if number >= 240 else 1]:
            each = exchange(request(target=target), response())
            each.started_ns += number * 100_000_000
            each.ended_ns = each.started_ns + 20_000_000
            made.append(each)
    return made


def test_a_new_group_is_said_and_in_json() -> None:
    first, *_ = table(released_orders()).splitlines()
    assert first.endswith("  new: example.org GET /audit  (160 in 15 s, none in the 24 s before)")
    orders, audit, _ = objects(released_orders())
    assert orders["changes"] == []
    [change] = audit["changes"]
    since = datetime.fromisoformat(change.pop("since"))
    assert since.timestamp() == pytest.approx(START_NS / 1e9 + 24)
    assert change == {
        "what": "new",
        "until": None,
        "slice_ms": pytest.approx(268.435),
        "exchanges": 160,
        "present_ms": 15_900,
        "absent_ms": 24_000,
        "quantile": None,
        "cause": None,
        "raw_paths": [],
    }


def test_groups_that_are_not_searched_are_said() -> None:
    made = [exchange(request(authority=f"h{n % 66}"), response()) for n in range(25 * 66)]
    said = "changes are searched in the first 64 groups: others have 50 exchanges"
    assert said in table(made, "host").splitlines()
