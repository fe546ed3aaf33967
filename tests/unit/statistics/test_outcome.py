"""The figures of an exchange, and that its JSON line gives the same."""

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sslsniff.core.model import Address, Body, Connection, Exchange, Request, Response
from sslsniff.core.process import Process
from sslsniff.decoders.inner.models.model_call import ModelCall, TokenUsage
from sslsniff.decoders.messages import Headers, Side
from sslsniff.forms.json.json_lines import JsonSink
from sslsniff.statistics.keys import KEYS
from sslsniff.statistics.model_totals import CallFigures
from sslsniff.statistics.outcome import Outcome
from tests.unit.exchanges import START_NS, connection, exchange, request, response

texts = st.text(max_size=300)
maybe_text = st.none() | texts
headers = st.lists(
    st.tuples(
        st.none()
        | st.sampled_from(["host", "Host", "HOST", "content-type", "grpc-status"])
        | texts,
        st.none() | st.sampled_from(["application/grpc", "5", "0", "example.org"]) | texts,
    ),
    max_size=4,
).map(Headers)
sizes = st.builds(Body, st.integers(0, 1 << 70), st.just(b""), st.integers(0, 1 << 40))
times = st.none() | st.integers(START_NS - 10**9, START_NS + 10**17)
tokens = st.none() | st.integers(0, 1 << 60)
model_calls = st.builds(
    ModelCall,
    api=texts,
    provider=maybe_text,
    model=maybe_text,
    answered_by=maybe_text,
    error=maybe_text,
    usage=st.builds(TokenUsage, tokens, tokens, cached=tokens, written=tokens),
)
addresses = st.none() | st.sampled_from([Address("127.0.0.1", 8443), Address("fe80::1", 443)])
connections = st.builds(
    Connection,
    id=st.just("7-1"),
    process=st.builds(Process, st.integers(0, 1 << 22), texts),
    library=st.just("openssl"),
    role=st.none() | st.sampled_from(Side),
    from_start=st.booleans(),
    opened_ns=st.just(START_NS),
    local=addresses,
    remote=addresses,
)
exchanges = st.builds(
    Exchange,
    connection=connections,
    protocol=st.sampled_from(["http/1.1", "http/2"]) | texts,
    stream=st.none(),
    tid=st.just(7),
    started_ns=st.integers(START_NS, START_NS + 10**18),
    first_byte_ns=times,
    ended_ns=times,
    request=st.none()
    | st.builds(
        Request, maybe_text, maybe_text, maybe_text, maybe_text, headers, sizes, st.just([])
    ),
    response=st.none()
    | st.builds(Response, st.none() | st.integers(0, 999), texts, headers, sizes, headers),
    error=st.none()
    | st.sampled_from(["capture ended", "connection closed", "evicted: x", "over 9 exchanges open"])
    | texts,
    model_call=st.none() | model_calls,
)


def json_line(made: Exchange) -> dict[str, Any]:
    out = io.BytesIO()
    JsonSink(out).exchange(made)
    line: dict[str, Any] = json.loads(out.getvalue())
    return line


@pytest.mark.tools
@given(made=exchanges)
def test_an_exchange_and_its_json_line_give_the_same(made: Exchange) -> None:
    outcome = Outcome.of(made)
    assert Outcome.of_json(json_line(made)) == outcome
    for text in (outcome.host, outcome.path, outcome.method, outcome.protocol, outcome.error):
        assert len(text or "") <= 260
    assert min(outcome.duration_ns or 0, outcome.first_byte_ns or 0) >= 0


def test_all_figures() -> None:
    asked = request("POST", "/orders/1042?a=b", authority="Example.ORG:8443", body=b"abc")
    answered = response(503, body=b"12345")
    answered.body.missing = 2
    outcome = Outcome.of(exchange(asked, answered))
    assert outcome == Outcome(
        time_ns=START_NS,
        duration_ns=5_000_000,
        first_byte_ns=3_000_000,
        host="example.org:8443",
        path="/orders/{}",
        method="POST",
        status=503,
        protocol="http/1.1",
        comm="curl",
        pid=7,
        request_bytes=3,
        response_bytes=5,
        missing_bytes=2,
        error=None,
        role="client",
        server="127.0.0.1:8443",
        raw_path="/orders/1042",
    )
    assert outcome.is_failed
    assert set(KEYS) < set(Outcome._fields)


@pytest.mark.parametrize(("authority", "host"), [("h", "h"), (None, "in-header:1")])
def test_the_host_as_sent(authority: str | None, host: str) -> None:
    asked = request(authority=authority, headers=[("HoSt", "In-Header:1"), ("host", "other")])
    assert Outcome.of(exchange(asked)).host == host


def test_without_a_host_the_servers_address() -> None:
    near = connection()
    assert Outcome.of(exchange(request(authority=None), on=near)).host == "127.0.0.1:8443"
    near.remote = Address("::1", 443)
    assert Outcome.of(exchange(request(authority=None), on=near)).host == "[::1]:443"
    near.role = None
    assert Outcome.of(exchange(request(authority=None), on=near)).host is None


@pytest.mark.parametrize(
    ("role", "server"), [(Side.CLIENT, "127.0.0.1:8443"), (Side.SERVER, "127.0.0.1:40001")]
)
def test_the_side_of_the_process_and_the_server(role: Side, server: str) -> None:
    near = connection()
    near.role, near.sni = role, "api.example.org"
    made = exchange(request(), on=near)
    outcome = Outcome.of(made)
    assert (outcome.role, outcome.server, outcome.sni) == (role.value, server, near.sni)
    assert Outcome.of_json(json_line(made), near.sni) == outcome
    assert Outcome.of_json(json_line(made)).sni is None  # its line does not have it


def test_what_is_not_known_is_none() -> None:
    near = Connection("0-1", Process(0, ""), "openssl", None, True, START_NS)
    outcome = Outcome.of(exchange(None, response(None), on=near))  # type: ignore[arg-type]
    assert (outcome.comm, outcome.pid, outcome.host, outcome.path) == (None, None, None, "?")
    assert (outcome.method, outcome.status, outcome.is_failed) == (None, None, False)
    # It begins with the response: when the request was sent is not known.
    assert (outcome.duration_ns, outcome.first_byte_ns) == (None, None)


@pytest.mark.parametrize(
    ("error", "duration_ns", "is_failed", "is_open"),
    [
        (None, 5_000_000, False, False),
        ("reset: CANCEL", 5_000_000, True, False),
        ("connection closed", 5_000_000, True, False),
        ("capture ended", None, False, True),
        ("evicted: all connections together held over 1024 MiB", None, True, False),
        ("over 4096 exchanges open", None, True, False),
    ],
)
def test_how_it_ended(
    error: str | None, duration_ns: int | None, is_failed: bool, is_open: bool
) -> None:
    outcome = Outcome.of(exchange(request(), response(), error=error))
    assert outcome.duration_ns == duration_ns
    assert (outcome.is_failed, outcome.is_open) == (is_failed, is_open)
    assert outcome.first_byte_ns == 3_000_000


def test_times_that_go_back_are_not_known() -> None:
    made = exchange(request(), response())
    made.ended_ns = made.first_byte_ns = START_NS - 1
    outcome = Outcome.of(made)
    assert (outcome.duration_ns, outcome.first_byte_ns) == (None, None)


def test_a_failed_grpc_call() -> None:
    answered = response(200, [("content-type", "application/grpc")])
    answered.trailers = [("grpc-status", "5"), ("grpc-message", "no such")]
    made = exchange(request("POST", "/demo.Greeter/SayHello"), answered, protocol="http/2")
    outcome = Outcome.of(made)
    assert (outcome.status, outcome.error, outcome.is_failed) == (200, "grpc: NOT_FOUND", True)
    answered.trailers[0] = ("grpc-status", "0")
    assert not Outcome.of(made).is_failed


def test_a_model_call() -> None:
    made = exchange(request("POST", "/v1/chat/completions"), response())
    made.model_call = ModelCall("openai.chat", "openai", "gpt-5", usage=TokenUsage(21, 9, 7))
    outcome = Outcome.of(made)
    assert (outcome.model, outcome.call) == ("gpt-5", CallFigures(21, 9, 7, None))
    made.model_call.answered_by, made.model_call.error = "gpt-5-2026", "overloaded"
    assert (Outcome.of(made).model, Outcome.of(made).error) == ("gpt-5-2026", "overloaded")
    made.model_call.method = "tools/call"
    assert Outcome.of(made).call is None
