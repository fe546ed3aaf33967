"""Spans have the names of OpenTelemetry's conventions, and what an exchange was."""

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.semconv import attributes as stable
from opentelemetry.semconv import metrics as stable_metrics
from opentelemetry.semconv._incubating import attributes as incubating
from opentelemetry.semconv._incubating import metrics as incubating_metrics
from opentelemetry.trace import SpanKind, StatusCode

from sslsniff.core.endings import ExchangeEnding
from sslsniff.core.model import Exchange
from sslsniff.core.process import Container
from sslsniff.core.redacted import RedactedSecret
from sslsniff.decoders.databases.statement import Statement
from sslsniff.decoders.decoder import CLOSED
from sslsniff.decoders.inner.models.model_call import ModelCall, TokenUsage
from sslsniff.decoders.messages import Header, Side
from sslsniff.destinations.delivery import Delivery
from sslsniff.outputs.otlp import span_attributes
from sslsniff.outputs.otlp.exchange_metrics import DURATIONS, TOKENS, ExchangeMetrics
from sslsniff.outputs.otlp.exchange_spans import span_of
from sslsniff.outputs.otlp.span_attributes import attributes_of, error_type, span_name
from tests.unit.exchanges import START_NS, connection, exchange, request, response

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = ("traceparent", f"00-{TRACE}-{SPAN}-01")


def names_in(*packages: Any) -> set[str]:
    """Return all names that modules of the conventions' package define."""
    found = set()
    for package in packages:
        for each in pkgutil.iter_modules(package.__path__):
            module = importlib.import_module(f"{package.__name__}.{each.name}")
            found |= {value for value in vars(module).values() if isinstance(value, str)}
    return found


def test_all_names_are_of_the_conventions() -> None:
    known = names_in(stable, incubating)
    ours = span_attributes.NAMES
    assert [name for name in ours if not name.startswith("sslsniff.") and name not in known] == []
    assert len(set(ours)) == len(ours)
    of_resources = span_attributes.resource_attributes(exchange(request()).connection.process)
    assert [name for name in of_resources if name not in known] == []
    known_metrics = names_in(stable_metrics, incubating_metrics)
    assert [each.name for each in DURATIONS if each.name not in known_metrics] == []
    assert TOKENS in known_metrics
    used = {name for each in DURATIONS for name in each.attributes}
    assert used <= set(ours)


def test_a_request_of_a_client() -> None:
    shown = exchange(
        request("POST", "/orders/1042?key=1", [("user-agent", "u/1")], b"abc", "example.org:8443"),
        response(201, body=b"done"),
    )
    shown.connection.tls_version, shown.connection.alpn = "TLS 1.3", "http/1.1"
    assert attributes_of(shown) == {
        "network.protocol.name": "http",
        "network.protocol.version": "1.1",
        "network.transport": "tcp",
        "network.type": "ipv4",
        "network.local.address": "127.0.0.1",
        "network.local.port": 40001,
        "network.peer.address": "127.0.0.1",
        "network.peer.port": 8443,
        "server.address": "example.org",
        "server.port": 8443,
        "client.address": "127.0.0.1",
        "client.port": 40001,
        "tls.established": True,
        "tls.protocol.name": "tls",
        "tls.protocol.version": "1.3",
        "tls.next_protocol": "http/1.1",
        "thread.id": 7,
        "sslsniff.library": "openssl",
        "sslsniff.connection": "7-1",
        "http.request.method": "POST",
        "http.response.status_code": 201,
        "http.request.body.size": 3,
        "http.response.body.size": 4,
        "url.full": "https://example.org:8443/orders/1042?key=1",
        "url.scheme": "https",
        "url.path": "/orders/1042",
        "url.query": "key=1",
        "url.template": "/orders/{}",
        "user_agent.original": "u/1",
    }
    span = span_of(shown, [])
    assert (span.name, span.kind, span.status.status_code) == (
        *("POST", SpanKind.CLIENT, StatusCode.UNSET),
    )
    assert (span.start_time, span.end_time) == (START_NS, START_NS + 5_000_000)
    assert span.parent is None
    assert {"service.name": "curl", "process.pid": 7}.items() <= span.resource.attributes.items()


def of_server(status: int) -> Exchange:
    shown = exchange(request("BREW"), response(status))
    shown.connection.role = Side.SERVER
    return shown


def test_a_server_is_not_to_blame_for_4xx() -> None:
    assert error_type(of_server(404)) is None
    assert error_type(of_server(500)) == "500"
    assert error_type(exchange(request(), response(404))) == "404"
    span = span_of(of_server(503), [])
    assert (span.kind, span.status.status_code) == (SpanKind.SERVER, StatusCode.ERROR)
    attributes = attributes_of(of_server(200))
    assert attributes["http.request.method"] == "_OTHER"
    assert attributes["http.request.method_original"] == "BREW"
    assert "url.full" not in attributes
    assert span.name == "HTTP"


def test_the_parent_may_be_the_span_of_another_exchange() -> None:
    above = span_of(exchange(request(headers=[TRACEPARENT]), response()), [])
    below = span_of(exchange(request(), response()), [], above.context)
    assert below.parent == above.context
    assert below.context is not None
    assert f"{below.context.trace_id:032x}" == TRACE
    named = span_of(exchange(request(headers=[TRACEPARENT]), response()), [], below.context)
    assert named.parent is not None
    assert f"{named.parent.span_id:016x}" == SPAN, "what is sent comes first"


def test_an_exchange_that_failed() -> None:
    shown = exchange(request(), error="evicted: memory")
    shown.ended_ns = None
    assert error_type(shown) == "evicted"
    span = span_of(shown, [])
    assert (span.status.description, span.end_time) == ("evicted: memory", START_NS)


@pytest.mark.parametrize(
    ("sent", "parent"),
    [
        ([TRACEPARENT, ("tracestate", "a=1")], (TRACE, SPAN)),
        ([("TraceParent", TRACEPARENT[1])], (TRACE, SPAN)),
        ([("traceparent", f"00-{'0' * 32}-{SPAN}-01")], None),
        ([("traceparent", "\udcff-x")], None),
        ([("traceparent", "")], None),
        ([], None),
    ],
)
def test_the_parent_is_what_the_request_names(
    sent: list[Header], parent: tuple[str, str] | None
) -> None:
    span = span_of(exchange(request(headers=sent), response()), [])
    if parent is None:
        assert span.parent is None
        return
    assert span.parent is not None
    assert (f"{span.parent.trace_id:032x}", f"{span.parent.span_id:016x}") == parent
    assert span.context is not None
    assert f"{span.context.trace_id:032x}" == TRACE
    assert f"{span.context.span_id:016x}" != SPAN


def test_grpc() -> None:
    kind = ("content-type", "application/grpc")
    answered = response(200, [kind])
    answered.trailers = [("grpc-status", "5"), ("grpc-message", "no such order")]
    shown = exchange(request("POST", "/shop.Orders/Find", [kind]), answered, protocol="http/2")
    found = attributes_of(shown)
    assert found["rpc.system.name"] == "grpc"
    assert found["rpc.method"] == span_name(shown) == "shop.Orders/Find"
    assert found["rpc.response.status_code"] == found["error.type"] == "NOT_FOUND"


def test_a_statement_without_its_literals() -> None:
    shown = exchange(protocol="postgresql")
    shown.statement = Statement(
        "postgresql", "SELECT", "SELECT * FROM t WHERE name = 'secret'", rows=3, database="shop"
    )
    found = attributes_of(shown)
    assert found["db.query.text"] == "SELECT * FROM t WHERE name = ?"
    assert (found["db.system.name"], found["db.namespace"]) == ("postgresql", "shop")
    assert (found["db.operation.name"], found["db.response.returned_rows"]) == ("SELECT", 3)
    assert span_name(shown) == "SELECT shop"
    assert "http.request.method" not in found


def test_a_transaction() -> None:
    shown = exchange(protocol="postgresql")
    shown.statement = Statement("postgresql", "COMMIT", "COMMIT")
    shown.statement.idle_ns, shown.statement.transaction_ns = 3_000_000_999, 3_100_000_000
    found = attributes_of(shown)
    assert found["sslsniff.transaction_idle_us"] == 3_000_000
    assert found["sslsniff.transaction_us"] == 3_100_000


def test_how_it_ended_and_what_was_blanked() -> None:
    shown = exchange(request(), response())
    shown.error, shown.ending = CLOSED, ExchangeEnding(Side.SERVER, 2900, 5507, None)
    shown.redacted = {RedactedSecret("request header", "authorization", None, "4f1a"): 2}
    found = attributes_of(shown)
    assert found["sslsniff.ending"] == "2,900 of 5,507 B, connection closed"
    assert found["sslsniff.redacted"] == ["authorization #4f1a"]


def test_a_model_call() -> None:
    shown = exchange(request("POST", "/v1/chat/completions"), response())
    shown.model_call = ModelCall("openai.chat", "openai", model="m", answered_by="m-1")
    shown.model_call.usage, shown.model_call.finish = TokenUsage(5, 7), "stop"
    found = attributes_of(shown)
    assert {name: value for name, value in found.items() if name.startswith("gen_ai.")} == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "m",
        "gen_ai.response.model": "m-1",
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.usage.input_tokens": 5,
        "gen_ai.usage.output_tokens": 7,
    }
    assert span_name(shown) == "chat m"


def test_a_container_is_part_of_the_resource() -> None:
    shown = exchange(request(), response(), on=connection(pid=9))
    container = Container("containerd", "ab" * 32, "web", "prod", "web-1", "uid-1")
    shown.connection.process.container = container
    found = span_of(shown, []).resource.attributes
    assert (found["container.id"], found["k8s.pod.name"]) == ("ab" * 32, "web-1")
    assert found["k8s.namespace.name"] == "prod"


BAD = "\udcff"


def failed() -> Exchange:
    return exchange(request(), error=f"bad {BAD}")


def grpc_call() -> Exchange:
    kind = ("content-type", "application/grpc")
    return exchange(request("POST", f"/a{BAD}.B/C", [kind]), response(200, [kind]))


def model_call() -> Exchange:
    shown = exchange(request(), response())
    shown.model_call = ModelCall("x", BAD, model=BAD, usage=TokenUsage(10**400, 5), finish=BAD)
    return shown


def statement() -> Exchange:
    shown = exchange(protocol="mysql")
    shown.statement = Statement("mysql", BAD, BAD, rows=(1 << 64) - 1, database=BAD, code=BAD)
    shown.statement.error = BAD
    return shown


def odd_request() -> Exchange:
    headers: list[Header] = [
        ("user-agent", BAD * 10_000),
        TRACEPARENT,
        ("tracestate", f"a={BAD},b=\0"),
    ]
    shown = exchange(request(BAD, f"/{BAD}", headers, authority=BAD), response(10**30))
    shown.warnings = [BAD]
    return shown


@pytest.mark.parametrize("make", [failed, grpc_call, model_call, statement, odd_request])
def test_nothing_from_the_wire_keeps_a_batch_from_being_sent(
    make: Callable[[], Exchange], caplog: pytest.LogCaptureFixture
) -> None:
    """The SDK logs what it cannot encode of attributes, and fails for other texts."""
    shown = make()
    span = span_of(shown, [])
    assert encode_spans([span]).SerializeToString()
    reader = InMemoryMetricReader()
    sent: Delivery[Any] = Delivery(
        "", lambda batch: None, print, can_wait=True, most_waiting=1, most_at_once=1, give_up_s=1
    )
    metrics = ExchangeMetrics(MeterProvider([reader]).get_meter("m"), sent)
    metrics.add(shown, span.attributes or {})
    found = reader.get_metrics_data()
    sent.close(1, lambda: None)
    assert found is not None
    assert encode_metrics(found).SerializeToString()
    assert [each.getMessage() for each in caplog.records if each.levelname == "ERROR"] == []
    assert all(len(str(value)) <= 4096 for value in attributes_of(shown).values())
