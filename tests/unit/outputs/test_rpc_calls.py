"""What outputs make of a call by JSON-RPC: lines, JSON, figures, filters, the screen, spans."""

import io
import json
from typing import Any

import pytest

from sslsniff.core.model import Chunk, Direction, Exchange, InnerMessage, Peer
from sslsniff.core.rpc_calls import rpc_of
from sslsniff.decoders.inner.models.model_call import ModelCall
from sslsniff.decoders.json_rpc.rpc_call import RpcCall
from sslsniff.decoders.messages import RpcNotification, Side
from sslsniff.filters.filters import parse
from sslsniff.forms.json.json_lines import JsonSink
from sslsniff.forms.json.short_lines import ShortLines
from sslsniff.forms.text.hexdump import HexdumpSink
from sslsniff.forms.text.lines import Lines
from sslsniff.outputs.lines.terminal import TerminalSink
from sslsniff.screen.captured.capture_rows import ConnectionRow, ExchangeRow
from sslsniff.screen.captured.rebuilt_exchanges import exchange_of
from sslsniff.screen.contents.exchange_panes import exchange_lines
from sslsniff.statistics.outcome import Outcome
from tests.unit.exchanges import START_NS, connection, exchange

PEER = Peer(8, "python3", ("/usr/bin/python3", "/srv/files.py", "--root", "/"))
HOSTILE = "a\x1b[31m\u202eb"


def made(error: str | None = None, **facts: Any) -> Exchange:
    on = connection(comm="agent")
    on.local = on.remote = None
    on.peer, on.tls, on.library = PEER, False, "stdio"
    found = exchange(on=on, protocol="mcp", error=error)
    found.stream, found.sent_ns = None, START_NS
    found.first_byte_ns = None if error else START_NS + 5_000_000
    call = RpcCall("mcp", "tools/call", 3, name="read_file", parameters='{"name":"read_file"}')
    call.request_bytes, call.response_bytes, call.result = 60, 1200, '{"content":[]}'
    for name, value in facts.items():
        setattr(call, name, value)
    found.rpc, found.model_call = call, ModelCall("mcp", None, method=call.method)
    found.model_call.add_tool_call(None, None, call.name)
    return found


def shown(one: Exchange) -> dict[str, Any]:
    stream = io.BytesIO()
    JsonSink(stream).exchange(one)
    found: dict[str, Any] = json.loads(stream.getvalue())
    return found


CALLS = {
    "ok": made(),
    "a tool that failed": made(result=None),
    "an error": made(code=-32602, result=None),
    "closed": made(error="connection closed", result=None, response_bytes=0),
    "asked by the server": made(by_server=True, method="roots/list", name=None, progress=2),
}
CALLS["a tool that failed"].rpc.error = "no such file"  # type: ignore[union-attr]
CALLS["an error"].rpc.error = "no tool"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("ok", "mcp         tools/call  ok     5.0 ms    1.2 kB  read_file"),
        (
            "a tool that failed",
            "mcp         tools/call  failed    5.0 ms    1.2 kB  read_file  no such file",
        ),
        (
            "an error",
            "mcp         tools/call  failed    5.0 ms    1.2 kB  read_file  -32602: no tool",
        ),
        ("closed", "mcp         tools/call  -      5.0 ms       0 B  read_file  connection closed"),
        (
            "asked by the server",
            "mcp         roots/list  ok     5.0 ms    1.2 kB  asked by the server"
            "  2 reports of progress",
        ),
    ],
)
def test_lines(name: str, end: str) -> None:
    line = Lines().exchange(CALLS[name])
    assert line.split("  ", 1)[1] == f"agent[7]        python3 files.py[8]  {end}"


def test_a_whole_line_has_the_parameters() -> None:
    assert Lines(is_whole=True).exchange(CALLS["ok"]).endswith('  {"name":"read_file"}')


def test_lines_of_hostile_calls_are_escaped() -> None:
    hostile = made(error=HOSTILE, method=HOSTILE, name=HOSTILE, parameters=HOSTILE)
    hostile.rpc.error = HOSTILE  # type: ignore[union-attr]
    hostile.connection.peer = Peer(1, HOSTILE, (HOSTILE,))
    for is_whole in (False, True):
        assert Lines(is_whole=is_whole).exchange(hostile).isprintable()
    assert shown(hostile)["rpc"]["name"] == HOSTILE
    stream = io.StringIO()
    HexdumpSink(stream).chunk(Chunk(hostile.connection, Direction.READ, START_NS, 7, 0, b"a"))
    assert stream.getvalue().replace("\n", "").isprintable()


def test_json() -> None:
    found = shown(CALLS["an error"])
    assert found["rpc"] == {
        "method": "tools/call",
        "id": 3,
        "by_server": False,
        "name": "read_file",
        "parameters": '{"name":"read_file"}',
        "request_bytes": 60,
        "result": None,
        "response_bytes": 1200,
        "error": "no tool",
        "code": -32602,
        "progress": 0,
        "cancelled": None,
        "incomplete": None,
    }
    assert found["peer"] == {"pid": 8, "comm": "python3", "command": [*PEER.command]}
    assert (found["request"], found["response"], found["llm"]["api"]) == (None, None, "mcp")
    assert rpc_of(found["rpc"], "mcp") == CALLS["an error"].rpc


@pytest.mark.parametrize("name", CALLS)
def test_figures_are_the_same_by_json(name: str) -> None:
    outcome = Outcome.of(CALLS[name])
    assert Outcome.of_json(shown(CALLS[name])) == outcome
    assert (outcome.host, outcome.request_bytes) == ("python3 files.py", 60)
    assert outcome.is_failed == (name not in {"ok", "asked by the server"})


def test_figures() -> None:
    outcome = Outcome.of(CALLS["an error"])
    assert (outcome.method, outcome.path, outcome.status, outcome.error) == (
        *("tools/call", "read_file", "failed", "-32602: no tool"),
    )
    assert Outcome.of(CALLS["asked by the server"]).path == "roots/list"


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("~tool read_file", {"ok", "a tool that failed", "an error", "closed"}),
        ("~m roots", {"asked by the server"}),
        ("~e", {"a tool that failed", "an error", "closed"}),
        ("~q", {"closed"}),
        ("read_file ~s", {"ok", "a tool that failed", "an error", "asked by the server"}),
        ("~proto mcp", {*CALLS}),
        ("~sql .", set()),
    ],
)
def test_filters(expression: str, names: set[str]) -> None:
    matches = parse(expression).matches
    assert {name for name, each in CALLS.items() if matches(each)} == names
    rebuilt = {name: exchange_of(shown(each)) for name, each in CALLS.items()}
    assert {name for name, each in rebuilt.items() if matches(each)} == names


def test_the_screen() -> None:
    stream = io.BytesIO()
    ShortLines(stream).exchange(CALLS["an error"])
    line = stream.getvalue().splitlines()[-1]
    found = json.loads(line)
    on = ConnectionRow(found)
    on.update(found)
    row = ExchangeRow(1, on)
    row.finish(line, found)
    assert (row.method, row.url, row.shown_status) == ("tools/call", "read_file", "failed")
    assert (row.remark, row.is_failed) == ("-32602: no tool", True)
    assert (on.server, row.response_bytes) == ("python3 files.py[8]", 1200)
    texts = [each.text for each in exchange_lines(row, found)]
    assert "Parameters" in "".join(texts)
    assert any("read_file" in each for each in texts)


@pytest.mark.parametrize(("verbosity", "lines"), [(0, 0), (1, 1)])
def test_notifications(verbosity: int, lines: int) -> None:
    data = b'{"jsonrpc":"2.0","method":"notifications/progress"}'
    message = RpcNotification(1, Side.SERVER, data, len(data), method="notifications/progress")
    inner = InnerMessage(CALLS["ok"].connection, CALLS["ok"], message, START_NS, 7)
    stream = io.StringIO()
    TerminalSink(stream, verbosity).message(inner)
    assert stream.getvalue().count("<- notifications/progress  51 B") == lines
    written = io.BytesIO()
    JsonSink(written).message(inner)
    found = json.loads(written.getvalue())
    assert (found["type"], found["opcode"], found["method"], found["id"]) == (
        *("message", "notification", "notifications/progress", 3),
    )


@pytest.mark.tools
def test_spans() -> None:
    from sslsniff.outputs.otlp.span_attributes import attributes_of, span_name

    found = attributes_of(CALLS["an error"])
    assert found["rpc.method"] == found["mcp.method.name"] == "tools/call"
    assert found["rpc.response.status_code"] == found["error.type"] == "-32602"
    assert (found["gen_ai.tool.name"], found["network.transport"]) == ("read_file", "pipe")
    assert span_name(CALLS["an error"]) == "tools/call read_file"
    assert "gen_ai.tool.name" not in attributes_of(CALLS["asked by the server"])
