"""What outputs show of trees: lines, JSON, filters, and when connections end."""

import io
import json

import pytest

from sslsniff.core.model import Address, Connection, Exchange, InnerMessage
from sslsniff.core.sink import Sink, Summary
from sslsniff.decoders.messages import Side, WebSocketMessage
from sslsniff.filters.filtered import FilteredSink
from sslsniff.filters.filters import parse
from sslsniff.forms.json.json_lines import JsonSink
from sslsniff.forms.text.summary import SummarySink
from sslsniff.outputs.lines.terminal import TerminalSink
from sslsniff.request_tree.tree_sink import TreeSink
from tests.unit.request_tree.systems import end_of, exchange, id_of, statement

IDS = [("x-request-id", "0123456789")]


def order() -> list[Exchange]:
    """Return a request to process 100, what that asks process 200, and a statement beside it."""
    upstream = Address("10.0.0.3", 8443)
    client, server = (
        end_of(pid, role, 2000, server=upstream)
        for pid, role in ((100, Side.CLIENT), (200, Side.SERVER))
    )
    return [
        exchange(end_of(100, Side.SERVER, 1000), 0, 100, IDS, target="/front"),
        exchange(client, 1, 99, IDS, target="/upstream"),
        exchange(server, 2, 98, IDS, target="/upstream"),
        statement(end_of(200, Side.CLIENT, 3000), 3, 97, "SELECT 1"),
    ]


def pass_on(exchanges: list[Exchange], *sinks: Sink) -> None:
    """Pass exchanges by their times, the ends of their connections, and a summary."""
    tree = TreeSink(sinks)
    connections: dict[str, Connection] = {}
    for each in exchanges:
        connections[each.connection.id] = each.connection
        tree.opened(each.connection, each.started_ns)
        tree.began(each)
    for each in sorted(exchanges, key=lambda each: each.ended_ns or 0):
        tree.exchange(each)
    for connection in connections.values():
        tree.closed(connection, exchanges[0].ended_ns or 0)
    tree.summary(Summary(exchanges=len(exchanges), connections=len(connections)))


def test_lines_have_what_belongs_to_a_request_below_it() -> None:
    text = io.StringIO()
    pass_on(order(), TerminalSink(text), SummarySink(text))
    lines = text.getvalue().splitlines()
    assert lines[0].endswith("  SELECT 1")
    assert "└" not in lines[0], "no id: it is left apart"
    assert lines[1].endswith("https://host/front")
    assert lines[2].endswith("  └─ https://host/upstream  = program[200] 96.0 ms")
    counts = "2 trees: 1 joined to a request, 1 seen at both ends of a connection"
    assert lines[4] == counts


def test_json_names_the_parent_of_each_exchange() -> None:
    written, made = io.BytesIO(), order()
    pass_on(made, JsonSink(written))
    lines = [json.loads(line) for line in written.getvalue().splitlines()]
    found = [line for line in lines if line["type"] == "exchange"]
    front, asked, served, sent = map(id_of, made)
    assert [(each["id"], each["parent"], each.get("evidence")) for each in found] == [
        (sent, None, None),
        (front, None, None),
        (asked, front, "x-request-id"),
        (served, asked, "connection"),
    ]
    assert lines[-1]["trees"] == {"trees": 2, "ends": 1, "joined": 1, "ambiguous": 0, "too_old": 0}
    closed = [n for n, line in enumerate(lines) if line.get("event") == "closed"]
    last = [n for n, line in enumerate(lines) if line["type"] == "exchange"][-1]
    assert len(closed) == 4
    assert closed[-1] > last, "connections end after their exchanges"


@pytest.mark.parametrize("whole", [True, False])
def test_a_filter_shows_whole_trees_if_asked(whole: bool) -> None:
    text = io.StringIO()
    filtered = FilteredSink(parse("~u upstream"), [TerminalSink(text)], whole_trees=whole)
    pass_on(order(), filtered)
    shown = [line.rsplit("/", 1)[-1].split()[0] for line in text.getvalue().splitlines()]
    assert shown == (["front", "upstream"] if whole else ["upstream"])


def test_a_websocket_comes_before_its_messages() -> None:
    text, (front, *_) = io.StringIO(), order()
    sink = TreeSink([TerminalSink(text)])
    sink.began(front)
    sink.exchange(front)
    message = WebSocketMessage(1, Side.CLIENT, b"hello", 5, opcode="text")
    sink.message(InnerMessage(front.connection, front, message, front.ended_ns or 0, 1))
    first, second = text.getvalue().splitlines()
    assert first.endswith("/front")
    assert "hello" in second


def test_what_is_shown_apart_says_what_it_is_part_of() -> None:
    text, made = io.StringIO(), order()
    sink = TreeSink([TerminalSink(text)])
    for each in made:
        sink.began(each)
    sink.exchange(made[1])
    sink.tick((made[1].ended_ns or 0) + 20_000_000_000)
    assert text.getvalue().endswith(f"(part of {id_of(made[0])}, shown apart)\n")


def test_a_sink_without_trees_shows_nothing_of_them() -> None:
    written, (front, *_) = io.BytesIO(), order()
    with_trees = TreeSink([Sink()])
    with_trees.began(front)
    JsonSink(written).exchange(front)
    assert "parent" not in json.loads(written.getvalue())
