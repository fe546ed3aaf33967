"""How long tools worked between two calls of a model, by what passed to servers of MCP."""

import pytest

from sslsniff.core.model import Exchange
from sslsniff.decoders.inner.models.model_call import ModelCall
from sslsniff.decoders.messages import Side
from sslsniff.model_calls.tool_uses import ToolUses
from tests.unit.exchanges import START_NS, connection, exchange

MS = 1_000_000


def use(name: str, start_ms: int, end_ms: int, pid: int = 7, role: Side = Side.CLIENT) -> Exchange:
    on = connection(pid=pid)
    on.role = role
    made = exchange(on=on, protocol="mcp")
    made.model_call = ModelCall("mcp", None, method="tools/call")
    made.model_call.add_tool_call(None, None, name)
    made.started_ns, made.ended_ns = START_NS + start_ms * MS, START_NS + end_ms * MS
    return made


@pytest.mark.parametrize(
    ("uses", "took_ms"),
    [
        ([use("read_file", 10, 30)], 20),
        ([use("read_file", 10, 30), use("run_sql", 40, 45)], 25),
        ([use("read_file", 10, 30), use("run_sql", 20, 45), use("run_sql", 12, 14)], 35),
        ([use("read_file", 10, 30, pid=8)], None),
        ([use("read_file", 10, 30, role=Side.SERVER)], None),
        ([use("another", 10, 30)], None),
        ([use("read_file", -5, 30), use("read_file", 30, 101)], None),
        ([], None),
    ],
)
@pytest.mark.parametrize("tools", [("read_file", "run_sql"), ("mcp__a__read_file", "b__run_sql")])
def test_time(uses: list[Exchange], took_ms: int | None, tools: tuple[str, ...]) -> None:
    remembered = ToolUses()
    for each in uses:
        remembered.add(each)
    took_ns = remembered.between(
        exchange(on=connection(pid=7)), tools, START_NS, START_NS + 100 * MS
    )
    assert took_ns == (None if took_ms is None else took_ms * MS)
