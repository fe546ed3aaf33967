"""Calls of language models by the public SDKs, over TLS: each is shown as its SDK understood it."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.live.checks import Sniff, assert_whole
from tests.workload.processes import PATIENCE_S, PROGRAMS, next_line, started
from tests.workload.python.model_client import QUESTION, SDKS, SYSTEM, TOOL
from tests.workload.python.model_server import PAUSE_S
from tests.workload.servers import Certificate

MODELS = {
    "openai-chat": ("openai.chat", "gpt-test"),
    "openai-responses": ("openai.responses", "gpt-test"),
    "anthropic": ("anthropic.messages", "claude-test"),
    "google-genai": ("gemini.generate", "gemini-test"),
    "ollama": ("ollama.chat", "llama-test"),
}
"""The API of each SDK, and the model that its client asks for."""
CALLS = [(sdk, streamed) for sdk in SDKS for streamed in (False, True)]


def call(certificate: Certificate, port: str, sdk: str, streamed: bool) -> dict[str, Any]:
    """Return what an SDK made of the answer."""
    program = PROGRAMS / "python" / "model_client.py"
    arguments: list[str | Path] = [
        certificate.certificate,
        port,
        sdk,
        *(["stream"] if streamed else []),
    ]
    done = subprocess.run(
        [sys.executable, program, *arguments],
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@contextlib.contextmanager
def captured_calls(certificate: Certificate, sniff: Sniff) -> Iterator[Any]:
    program = PROGRAMS / "python" / "model_server.py"
    with (
        started(sys.executable, program, certificate.certificate, certificate.key) as server,
        sniff("--pid", str(server.pid)) as sniffer,
    ):
        yield next_line(server), sniffer


def test_sdks(certificate: Certificate, sniff: Sniff) -> None:
    with captured_calls(certificate, sniff) as (port, sniffer):
        answers = [call(certificate, port, sdk, streamed) for sdk, streamed in CALLS]
        sniffer.until(len(CALLS), "exchange")
        captured = sniffer.stop()

    assert_whole(captured)
    exchanges = captured.of("exchange")
    assert len(exchanges) == len(CALLS)
    for (sdk, streamed), answer, exchange in zip(CALLS, answers, exchanges, strict=True):
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
