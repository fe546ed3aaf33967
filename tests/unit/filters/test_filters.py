"""Filter expressions, against mitmproxy's own reading of them."""

import contextlib
import gzip
import io
import json
import random
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sslsniff.core.errors import FilterError
from sslsniff.core.model import Body, Exchange
from sslsniff.core.process import Container
from sslsniff.decoders.inner.models.model_call import ModelCall
from sslsniff.filters.filters import OPERATORS, parse
from sslsniff.forms.json.json_lines import JsonSink
from tests.unit.exchanges import connection, exchange, request, response
from tests.unit.outputs.har import mitmproxy

PROGRAM = Path(__file__).parents[2] / "oracles/mitmproxy_filter.py"

DOCS = Path(__file__).parents[3] / "docs/filters.md"

HTML = ("Content-Type", "text/html; charset=utf-8")
EXCHANGES = [
    exchange(request(), response(200, [HTML], b"<p>Hello</p>")),
    exchange(
        request("POST", "/form?a=1&b=%20", [("Content-Type", "application/json")], b'{"key": 1}'),
        response(404, [("content-type", "text/plain"), ("X-Trace", "abc")], b"not\nfound"),
    ),
    exchange(
        request("GET", "/app.js", [("cookie", "id=1; theme=dark")], authority="cdn.example.net"),
        response(
            200,
            [("content-type", "application/javascript"), ("content-encoding", "gzip")],
            gzip.compress(b"function hello() {}", mtime=0),
        ),
    ),
    exchange(request("DELETE", "/items/7", authority="api.example.org:8443"), response(500)),
    exchange(request("PUT", "/items/8", body=b"\xff\x00key"), None, error="connection closed"),
    exchange(request("GET", "/logo.png"), response(304, [("content-type", "image/png")])),
    exchange(
        request("GET", "/broken"),
        response(200, [("content-encoding", "gzip")], b"plain, not gzip"),
        connection(2, 8, "nginx"),
    ),
]

OPERATIONS = [
    "~a", "~all", "~e", "~http", "~q", "~s", "~websocket",
    "~c 200", "~c 404", "~c 999",
    "~b hello", "~b HELLO", "~bq key", "~bs key", "~b not.found", "~bs plain", "~b ^function",
    r"~bs '<p>.*</p>'", "~bq '\"key\"'", "~b xyz",
    "~d example", "~d ^example.org$", "~d EXAMPLE.net", "~d 8443",
    "~m post", "~m GET|PUT", "~m ^GE$",
    "~h x-trace", "~h X-Trace", "~hs ^x-trace", "~hq theme", "~hs theme", "~h 'trace: abc'",
    "~t json", "~tq json", "~ts json", "~t ^text/", "~ts image", "~ts 'text/html; c'",
    "~u items", "~u /items/[0-9]", "~u https://example", "~u b=%20", "~u items|logo",
    "items", "'items/7'", '"logo"',
    "~src 127.0.0.1:4000", "~dst :8443", "~src :8443",
]  # fmt: skip
JOINED = [
    "!~s", "!!~s", "~s & ~m GET", "~m GET & !~c 200", "~c 200 | ~c 404", "~m GET ~c 200",
    "~c 404 | ~c 500 ~m DELETE", "~m GET & ~c 200 | ~e", "~e | ~m GET & ~c 304",
    "!~m GET & ~s", "!(~m GET & ~c 200)", "(~c 404 | ~c 500) & ~m DELETE", "((~c 404))",
    "!~q !~e", "~u items | ~u logo", "foo bar", "items org", "  ~q  ",
]  # fmt: skip


def verdict(text: str) -> list[bool]:
    matches = parse(text).matches
    return [matches(each) for each in EXCHANGES]


def as_json(exchanges: list[Exchange]) -> list[object]:
    stream = io.BytesIO()
    sink = JsonSink(stream)
    for each in exchanges:
        sink.exchange(each)
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def combinations(count: int) -> list[str]:
    """Return expressions of several operators, always the same."""
    choose = random.Random(7)

    def grown(depth: int) -> str:
        kind = choose.randrange(5) if depth else 0
        if kind < 2:
            return choose.choice(OPERATIONS)
        if kind == 2:
            return f"!( {grown(depth - 1)} )"
        mark = "&|"[kind - 3]
        return f"( {grown(depth - 1)} ) {mark} ( {grown(depth - 1)} )"

    return [" ".join(grown(2) for _ in range(choose.randint(1, 2))) for _ in range(count)]


@pytest.mark.heavy
def test_mitmproxy_agrees() -> None:
    expressions = [*OPERATIONS, *JOINED, *combinations(200)]
    given = {"exchanges": as_json(EXCHANGES), "expressions": expressions}
    theirs = json.loads(mitmproxy.run("python", PROGRAM, given=json.dumps(given)))
    assert {text: verdict(text) for text in expressions} == theirs
    # A verdict that is always the same would say nothing.
    assert sum(any(each) and not all(each) for each in theirs.values()) > 100


@pytest.mark.heavy
def test_every_operator_of_mitmproxy_is_here_or_told_of() -> None:
    program = (
        "from mitmproxy.flowfilter import filter_int, filter_rex, filter_unary;"
        "print(*(each.code for each in (*filter_unary, *filter_rex, *filter_int)))"
    )
    theirs = set(mitmproxy.run("python", "-c", program).split())
    table, _, told = DOCS.read_text("utf-8").partition("\nNot here,")
    absent = set(re.findall("`~(\\w+)`", told.partition("\n")[0]))
    assert len(theirs) > 30
    assert theirs - set(OPERATORS) == absent
    assert set(OPERATORS) - theirs == {
        "comm",
        "container",
        "idle",
        "model",
        "pid",
        "proto",
        "redacted",
        "size",
        "slow",
        "sql",
        "tool",
        "unit",
    }
    assert {name for name in OPERATORS if f"`~{name}" in table} == set(OPERATORS)


CONTAINERS = [
    None,
    Container("docker", "0f" * 32, "web"),
    Container("containerd", "a1" * 32, "app", "prod", "shop-1", "7", "nginx.service"),
    Container(unit="web.service"),
]


@pytest.mark.parametrize(
    ("text", "matching"),
    [
        ("~container web", [1]),
        ("~container ^WEB$", [1]),
        ("~container ^0f0f", [1]),
        ("~container ^prod/shop-1/app$", [2]),
        ("~container .", [1, 2]),
        ("!~container .", [0, 3]),
        ("~unit nginx", [2]),
        ("~unit ^web.service$", [3]),
        ("~unit . & ~container .", [2]),
    ],
)
def test_containers(text: str, matching: list[int]) -> None:
    matches = parse(text).matches
    found = []
    for number, container in enumerate(CONTAINERS):
        on = connection()
        on.process.container = container
        if matches(exchange(request(), response(), on)):
            found.append(number)
    assert found == matching


def test_parentheses_may_hold_what_stands_side_by_side() -> None:
    assert verdict("!(~m GET ~c 200)") == verdict("!(~m GET & ~c 200)")


def test_an_operator_may_stand_before_a_parenthesis() -> None:
    assert verdict("(~s)") == verdict("~s")


def test_in_quotes_a_backslash_is_the_regexs() -> None:
    assert verdict(r'~u "items/\d"') == verdict("~u items/[0-9]") != verdict("~u nothing")
    assert verdict(r'~bq "\"key\": 1"') == verdict("~bq '\"key\": 1'") != verdict("~u nothing")


def test_lines_of_headers_begin_and_end() -> None:
    assert verdict("~h '^x-trace: abc$'") == verdict("~h x-trace")


def test_processes_and_protocols() -> None:
    assert (
        verdict("~pid 8")
        == verdict("~comm ^NGINX$")
        == [each.connection.process.pid == 8 for each in EXCHANGES]
    )
    assert parse("~proto http/2").matches(exchange(request(), protocol="http/2"))
    assert not parse("~proto http/2").matches(EXCHANGES[0])


def test_model_calls() -> None:
    """The model that was asked for or that answered; the tools that were called."""
    called = exchange(request("POST", "/v1/messages"), response())
    called.model_call = ModelCall("anthropic.messages", None, "claude-test")
    called.model_call.answered_by = "claude-test-2026"
    called.model_call.add_tool_call(0, "1", "get_weather", "{}")
    for text, matches in (
        ("~model claude", True),
        ("~model 2026$", True),
        ("~model ^claude-test$", True),
        ("~model gpt", False),
        ("~tool weather", True),
        ("~tool claude", False),
        ("~model . & ~tool .", True),
    ):
        assert parse(text).matches(called) is matches
        assert not parse(text).matches(EXCHANGES[0])


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("~slow 5ms", True),
        ("~slow 5000us", True),
        ("~slow 5.001ms", False),
        ("~slow 1s", False),
        ("~slow 1m", False),
        ("~slow 0ns", True),
    ],
)
def test_as_long_as_json_lines_say(text: str, matches: bool) -> None:
    """5 ms, less 400 ns, is 5.0 in ``duration_ms``."""
    made = exchange(request(), response())
    assert made.ended_ns is not None
    made.ended_ns -= 400
    [line] = as_json([made])
    assert isinstance(line, dict)
    assert line["duration_ms"] == 5.0
    assert parse(text).matches(made) is matches
    made.ended_ns = None
    assert not parse(text).matches(made)


def test_a_minute_has_sixty_seconds() -> None:
    made = exchange(request(), response())
    made.ended_ns = made.started_ns + 60_000_000_000
    assert parse("~slow 1m & ~slow 60s & !~slow 1.1m").matches(made)


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("~size 2k", True),
        ("~size 2048", True),
        ("~size 2049", False),
        ("~size 2KiB", True),
        ("~size 1M", False),
        ("~size 0", True),
    ],
)
def test_bodies_of_both_sides_together(text: str, matches: bool) -> None:
    made = exchange(request(body=bytes(1000)), response(body=bytes(1048)))
    assert parse(text).matches(made) is matches
    made.request = made.response = None  # as a statement to a database
    assert not parse(text).matches(made)


def test_a_body_counts_as_sent_also_if_it_is_not_stored() -> None:
    made = exchange(request(), response())
    assert made.response is not None
    made.response.body = Body(size=70_000)
    assert parse("~size 64k").matches(made)


def test_a_server_name_is_a_domain() -> None:
    named = connection()
    named.sni = "host.example.com"
    assert parse("~d host.example.com").matches(exchange(request(authority=None), on=named))
    assert parse("~d ^::1$").matches(exchange(request(authority="[::1]:8443")))


def test_websockets() -> None:
    upgrade = response(101, [("Upgrade", "WebSocket")])
    assert parse("~websocket").matches(exchange(request(), upgrade))
    assert not parse("~websocket").matches(exchange(request(), response(101, [("Upgrade", "h2c")])))
    asked = request("CONNECT", "/chat", [(":protocol", "websocket")])
    for status, became in ((200, True), (403, False), (None, False)):
        tunnel = exchange(asked, response(status), protocol="http/2")  # type: ignore[arg-type]
        assert parse("~websocket").matches(tunnel) is became
    assert not parse("~websocket").matches(exchange(request("CONNECT", "a:443"), response(200)))


@pytest.mark.parametrize("operator", [name for name in OPERATORS if name not in {"all", "http"}])
def test_nothing_matches_what_is_not_known(operator: str) -> None:
    unknown = exchange(request(None, None, [(None, None)], authority=None), error=None)  # type: ignore[arg-type]
    unknown.connection.local = unknown.connection.remote = unknown.ended_ns = None
    unknown.connection.process.comm = ""
    unknown.response = response(None, [(None, None)])  # type: ignore[arg-type]
    argument = {"c": "7777", "pid": "7777", "slow": "0s", "idle": "0s", "size": "1"}.get(
        operator, "[a-z0-9]{2}"
    )
    flags = {"a", "e", "q", "s", "websocket"}
    text = f"~{operator}" if operator in flags else f"~{operator} {argument}"
    known = {"s", "proto", "u"}  # the protocol always is, and of a URL that it is https
    assert parse(text).matches(unknown) is (operator in known)


def test_only_operators_on_bodies_want_bodies() -> None:
    assert [
        name for name in ["m", "u", "h", "b", "bq", "bs"] if parse(f"~{name} x").wants_bodies
    ] == [
        "b",
        "bq",
        "bs",
    ]
    assert parse("~m x | !(~u y & ~bs z)").wants_bodies


@pytest.mark.parametrize(
    ("text", "said", "position"),
    [
        ("", "missing", 0),
        ("   ", "missing", 3),
        ("~m POST & ", "missing", 10),
        ("~m POST & | ~q", "missing", 10),
        ("!", "missing", 1),
        ("()", "missing", 1),
        ("~m", "a regex is missing", 2),
        ("~m ~q", "a regex is missing", 3),
        ("~q | ~nope x", "no operator ~nope", 5),
        ("~c200", "no operator ~c200", 0),
        ("~c", "needs a number", 2),
        ("~c 20x", "takes a number", 3),
        ("~c \u0661", "takes a number", 3),
        ("~slow", "~slow needs a duration: such as ~slow 1s", 5),
        ("~slow abc", "~slow takes a duration: such as ~slow 1s", 6),
        ("~m GET ~slow 10", "takes a duration", 13),
        ("~slow -1s", "takes a duration", 6),
        ("~slow \u0661s", "takes a duration", 6),
        ("~size", "~size needs a size: such as ~size 64K", 5),
        ("~size 1s", "~size takes a size: such as ~size 64K", 6),
        ("~size \u0661", "takes a size", 6),
        (f"~size {'9' * 5000}", "takes a size", 6),
        ("(~q & ~s", "never closed", 0),
        ("~q )", "nothing is open", 3),
        ("~u 'abc", "never closed", 3),
        ("~u a[b", "unterminated character set", 4),
        ("~u 'a(b'", "unterminated subpattern", 5),
        ("~b *", "nothing to repeat", 3),
        ("~m GET& ~q", "a space is missing", 6),
        ("~u a{99999999999999}", "too large", 3),
        ("(" * 3000, "nested too deeply", 50),
        ("~u '" + "(" * 5000 + ")" * 5000 + "'", "too large", 4),
    ],
)
def test_an_error_names_its_place(text: str, said: str, position: int) -> None:
    with pytest.raises(FilterError, match=said) as raised:
        parse(text)
    assert raised.value.position == position
    assert raised.value.expression == text


@pytest.mark.tools
@given(st.text(st.sampled_from(" ~abcdehiklmoqstuwz!&|()'\"\\[*2x\n"), max_size=30))
def test_no_text_raises_anything_else(text: str) -> None:
    with contextlib.suppress(FilterError):
        assert set(verdict(text)) <= {True, False}
