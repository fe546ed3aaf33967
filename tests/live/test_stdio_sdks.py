"""MCP by standard input and output as the public SDKs speak it, and beside calls of a model."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.live.checks import Ran, run_under
from tests.workload.debian import CACHE
from tests.workload.node import NODE
from tests.workload.processes import PROGRAMS, next_line, started
from tests.workload.python.agent_client import TOOL_S
from tests.workload.python.stdio_model_agent import OWN_S
from tests.workload.servers import Certificate

pytestmark = pytest.mark.heavy

PYTHON = PROGRAMS / "python"
NODE_MODULES = CACHE / "mcp-server/node_modules"
EVERYTHING = NODE_MODULES / "@modelcontextprotocol/server-everything/dist/index.js"
NODE_AGENT = PROGRAMS / "node/mcp_stdio_agent.mjs"


def calls_of(ran: Ran) -> list[dict[str, Any]]:
    assert ran.captured.summary["lost_bytes"] == 0
    assert ran.captured.of("undecoded") == []
    calls = [each for each in ran.captured.exchanges if "rpc" in each]
    return sorted(calls, key=lambda each: str(each["time"]))


def texts(calls: list[dict[str, Any]], tool: str) -> list[str]:
    """Return what the calls of a tool returned; a long result is cut in ``rpc``, not in ``llm``."""
    return [each["llm"]["text"] for each in calls if each["rpc"]["name"] == tool]


@pytest.mark.parametrize("server", [(), (NODE, EVERYTHING, "stdio")], ids=["python", "node"])
def test_an_agent_in_python(server: tuple[str | Path, ...], tmp_path: Path) -> None:
    command = (sys.executable, PYTHON / "mcp_stdio.py", "agent", *server)
    ran = run_under(tmp_path, *command, options=["--stdio"])
    got = json.loads(ran.stdout.splitlines()[-1])
    calls = calls_of(ran)

    assert {each["protocol"] for each in calls} == {"mcp"}
    [listed] = [each for each in calls if each["rpc"]["method"] == "tools/list"]
    assert listed["llm"]["tools"] == got["tools"]
    assert texts(calls, "echo") == got["echo"]
    assert len(got["echo"][1]) > 1 << 20
    [unknown] = [each for each in calls if each["rpc"]["name"] == "no_such_tool"]
    assert unknown["rpc"]["error"] == got["error"]
    if "progress" in got:
        [slow] = [each for each in calls if each["rpc"]["name"] == "slow"]
        assert slow["rpc"]["progress"] == len(got["progress"]) == 3


def test_an_agent_in_node(tmp_path: Path) -> None:
    """Its pipes are sockets. The server asks, too; one call is cancelled."""
    command = (NODE, NODE_AGENT, NODE_MODULES, EVERYTHING)
    ran = run_under(tmp_path, *command, options=["--stdio"])
    got = json.loads(ran.stdout.splitlines()[-1])
    calls = calls_of(ran)

    assert texts(calls, "echo") == got["echo"]
    by_method = {each["rpc"]["method"]: each["rpc"] for each in calls}
    assert by_method["sampling/createMessage"]["by_server"]
    assert "sampled" in by_method["sampling/createMessage"]["result"]
    assert not by_method["tools/list"]["by_server"]
    [cancelled] = [each for each in calls if each["rpc"]["cancelled"] is not None]
    assert cancelled["rpc"]["name"] == "trigger-long-running-operation"
    assert cancelled["error"] == "cancelled: too slow"


@pytest.mark.parametrize("sdk", ["openai-chat", "anthropic"])
def test_a_run_has_the_time_of_its_servers(
    sdk: str, certificate: Certificate, tmp_path: Path
) -> None:
    server = (PYTHON / "agent_server.py", certificate.certificate, certificate.key)
    with started(sys.executable, *server) as running:
        agent = (PYTHON / "stdio_model_agent.py", certificate.certificate, next_line(running), sdk)
        ran = run_under(tmp_path, sys.executable, *agent, options=["--stdio"])

    models = [each["llm"]["run"] for each in ran.captured.exchanges if "rpc" not in each]
    assert [each["tools"] for each in models] == [[], ["read_file"], ["run_sql"]]
    assert models[0]["mcp_ms"] is None
    for each in models[1:]:
        [tool] = each["tools"]
        assert TOOL_S[tool] * 1000 <= each["mcp_ms"]
        assert each["mcp_ms"] + OWN_S * 1000 <= each["tools_ms"]
