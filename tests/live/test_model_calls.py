"""Calls of language models by the public SDKs, over TLS: each is shown as its SDK understood it."""

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from tests.live.checks import Sniff, assert_whole, read, run_under
from tests.live.sniffer import SSLSNIFF
from tests.unit.outputs.report.pages import Parts
from tests.workload.debian import CACHE
from tests.workload.node import NODE
from tests.workload.processes import PROGRAMS, next_line, run, started
from tests.workload.python import mcp_client
from tests.workload.python.model_client import QUESTION, SDKS, SYSTEM, TOOL
from tests.workload.python.model_server import PAUSE_S, TEXT
from tests.workload.servers import Certificate

pytestmark = pytest.mark.heavy

MODELS = {
    "openai-chat": ("openai.chat", "gpt-test"),
    "openai-responses": ("openai.responses", "gpt-test"),
    "anthropic": ("anthropic.messages", "claude-test"),
    "google-genai": ("gemini.generate", "gemini-test"),
    "ollama": ("ollama.chat", "llama-test"),
}
"""The API of each SDK, and the model that its client asks for."""
NODE_CLIENT = PROGRAMS / "node/model_client.js"
NODE_SDKS = CACHE / "model-sdks"
OF_NODE = ("openai-chat", "openai-responses", "anthropic")
CALLS = [(sdk, streamed) for sdk in SDKS for streamed in (False, True)]


def call(program: str, certificate: Certificate, port: str, *arguments: str) -> dict[str, Any]:
    """Return what an SDK made of the answer."""
    path = PROGRAMS / "python" / program
    answer = run(sys.executable, path, certificate.certificate, port, *arguments)
    return cast(dict[str, Any], json.loads(answer))


def call_by_node(
    _program: str, certificate: Certificate, port: str, *arguments: str
) -> dict[str, Any]:
    """Return what the Node.js SDK of the same API made of the answer."""
    command: tuple[str | Path, ...] = (NODE, NODE_CLIENT, NODE_SDKS, port, *arguments)
    answer = run(*command, NODE_EXTRA_CA_CERTS=str(certificate.certificate))
    return cast(dict[str, Any], json.loads(answer))


@contextlib.contextmanager
def captured_calls(
    program: str, certificate: Certificate, sniff: Sniff, *options: str
) -> Iterator[Any]:
    path = PROGRAMS / "python" / program
    with (
        started(sys.executable, path, certificate.certificate, certificate.key) as server,
        sniff("--pid", str(server.pid), *options) as sniffer,
    ):
        yield next_line(server), sniffer


@pytest.mark.parametrize("ask", [call, call_by_node], ids=["python", "node"])
def test_sdks(ask: Callable[..., dict[str, Any]], certificate: Certificate, sniff: Sniff) -> None:
    calls = [each for each in CALLS if ask is call or each[0] in OF_NODE]
    with captured_calls("model_server.py", certificate, sniff) as (port, sniffer):
        answers = [
            ask("model_client.py", certificate, port, sdk, *(["stream"] if streamed else []))
            for sdk, streamed in calls
        ]
        sniffer.until(len(calls), "exchange")
        captured = sniffer.stop()

    assert_whole(captured)
    exchanges = captured.of("exchange")
    assert len(exchanges) == len(calls)
    for (sdk, streamed), answer, exchange in zip(calls, answers, exchanges, strict=True):
        llm = exchange["llm"]
        api, model = MODELS[sdk]
        assert (llm["api"], llm["model"], llm["streamed"]) == (api, model, streamed)
        assert (llm["provider"], llm["method"]) == (None, None)  # localhost is nobody's
        assert [(each["role"], each["text"]) for each in llm["messages"]] == [
            ("system", SYSTEM),
            ("user", QUESTION),
        ]
        assert llm["tools"] == [TOOL]
        tool_calls = [
            [each["id"], each["name"], json.loads(each["arguments"])] for each in llm["tool_calls"]
        ]
        usage = llm["usage"]
        assert answer == {
            "text": llm["text"],
            **({"reasoning": llm["reasoning"]} if "reasoning" in answer else {}),
            "tool_calls": tool_calls,
            "finish": llm["finish_reason"],
            "model": llm["response_model"],
            "tokens": [usage["input_tokens"], usage["output_tokens"]],
        }
        assert (llm["error"], llm["incomplete"]) == (None, None)
        if streamed:
            first = llm["first_output_ms"]
            assert exchange["first_byte_ms"] + PAUSE_S * 900 <= first
            assert first + PAUSE_S * 900 * 5 <= exchange["duration_ms"]
        else:
            assert llm["first_output_ms"] is None


def test_a_client_may_close_after_the_answer(certificate: Certificate, tmp_path: Path) -> None:
    """OpenAI's SDK closes its connection where ``[DONE]`` came; the last chunk comes later."""
    files = {name: tmp_path / f"a.{name}" for name in ("pcapng", "har", "html")}
    options = [f"--pcap={files['pcapng']}", f"--har={files['har']}", f"--report={files['html']}"]
    programs = PROGRAMS / "python"
    server = (programs / "model_server.py", certificate.certificate, certificate.key)
    with started(sys.executable, *server) as running:
        client = (programs / "model_client.py", certificate.certificate, next_line(running))
        asked = ("openai-chat", "stream", "late-end")
        ran = run_under(tmp_path, sys.executable, *client, *asked, options=options)

    assert_whole(ran.captured)
    assert json.loads(ran.stdout)["text"] == "".join(TEXT)
    [exchange] = ran.captured.exchanges
    assert exchange["request"]["headers"].count(["X-Late-End", "yes"]) == 1
    assert (exchange["error"], exchange["llm"]["error"]) == (None, None)
    [shown] = json.loads(files["har"].read_bytes())["log"]["entries"]
    assert "_error" not in shown["response"]
    assert Parts(files["html"].read_bytes()).capture["total"]["errors"] == 0
    assert run(SSLSNIFF, "read", files["pcapng"], "~e").startswith("0 shown of 1 exchange")


AGENTS = ("openai-chat", "openai-responses", "openai-responses-by-id", "anthropic", "google-genai")
AGENTS_IN_TURN = [1, 2, 1, 2, 1, 2]
"""The agents of the calls in their order: two, which take turns, with three calls each."""


@pytest.mark.parametrize("sdk", [*AGENTS, "ollama"])
def test_agents_have_runs(sdk: str, certificate: Certificate, tmp_path: Path) -> None:
    """Two agents with the same task in one process: their calls, and the times of their tools."""
    capture, page = tmp_path / "a.pcapng", tmp_path / "a.html"
    programs = PROGRAMS / "python"
    server = (programs / "agent_server.py", certificate.certificate, certificate.key)
    with started(sys.executable, *server) as running:
        client = (programs / "agent_client.py", certificate.certificate, next_line(running))
        options = (f"--pcap={capture}", f"--report={page}")
        ran = run_under(tmp_path, sys.executable, *client, sdk, "2", options=options)

    assert_whole(ran.captured)
    calls = sorted(ran.captured.exchanges, key=lambda each: each["time"])
    found = [each["llm"]["run"] for each in calls]
    assert [each["id"] for each in found] == AGENTS_IN_TURN
    assert [each["position"] for each in found] == [1, 1, 2, 2, 3, 3]
    done = json.loads(ran.stdout)
    for agent, uses in enumerate(done):
        own = found[agent::2]
        assert [each["tools"] for each in own] == [[], *([tool] for tool, _ in uses)]
        # The other agent had its turn in between.
        assert all(
            each["tools_ms"] >= spent_s * 1000
            for each, (_, spent_s) in zip(own[1:], uses, strict=True)
        )
    again = read(capture)
    assert [each["llm"]["run"] for each in again.exchanges] == [
        each["llm"]["run"] for each in ran.captured.exchanges
    ]
    *rows, _ = map(
        json.loads, run(SSLSNIFF, "stats", capture, "--group-by=run", "--json").splitlines()
    )
    figures = [each for each in rows if each["type"] == "statistics" and each["group"]]
    assert [(each["group"]["run"], each["model_calls"]) for each in figures] == [(1, 3), (2, 3)]
    assert [[*each["tools_ms"]] for each in figures] == [["read_file", "run_sql"]] * 2
    shown = [row[17][9] for row in Parts(page.read_bytes()).rows]
    assert [each[:3] for each in shown] == [
        [each["llm"]["run"][name] for name in ("id", "position", "tools")]
        for each in ran.captured.exchanges
    ]


def test_mcp(certificate: Certificate, sniff: Sniff) -> None:
    """Tools are listed, and one is called."""
    with captured_calls("mcp_server.py", certificate, sniff) as (port, sniffer):
        answer = call("mcp_client.py", certificate, port)
        sniffer.until(3, "exchange")
        captured = sniffer.stop()

    assert_whole(captured)
    calls = {
        each["llm"]["method"]: each["llm"] for each in captured.of("exchange") if "llm" in each
    }
    assert {each["api"] for each in calls.values()} == {"mcp"}
    assert calls["tools/list"]["tools"] == answer["tools"] == [mcp_client.TOOL]
    called = calls["tools/call"]
    assert [(each["name"], json.loads(each["arguments"])) for each in called["tool_calls"]] == [
        (mcp_client.TOOL, mcp_client.ARGUMENTS)
    ]
    assert called["text"] == answer["text"]
    assert (called["model"], called["error"], called["incomplete"]) == (None, None, None)
