"""What a model has answered so far is on the screen before its answer has ended."""

import json
from typing import Any

import orjson
import pytest

from sslsniff.screen.contents.exchange_panes import conversation_lines, open_conversation_lines
from tests.unit.screen.captured_lines import event_lines
from tests.workload.python import model_server
from tests.workload.python.model_server import ARGUMENTS, TEXT, TOOL

PATHS = [path for path in model_server.ANSWERS if path != "/api/chat"]  # that has no events


def events_of(target: str, pieces: list[bytes]) -> list[dict[str, Any]]:
    """Return the objects of an open exchange's events."""
    return [orjson.loads(line) for line in event_lines(target, *pieces)]


def shown(events: list[dict[str, Any]]) -> str:
    return "\n".join(line.text for line in open_conversation_lines(events))


@pytest.mark.parametrize("path", PATHS)
def test_the_answer_grows_with_each_event(path: str) -> None:
    pieces = [json.dumps(each).encode() for each in model_server.ANSWERS[path]({})[1]]
    events = events_of(path, [*pieces, b"[DONE]"])
    states = [shown(events[:count]) for count in range(len(events) + 1)]
    assert "nothing shows a call" in states[0]
    said = ["".join(TEXT[:count]).strip() for count in range(1, len(TEXT) + 1)]
    places = [next(n for n, state in enumerate(states) if text in state) for text in said]
    assert places == sorted(places)
    assert places[0] < places[-1]
    assert f"calls {TOOL}" in states[-1]
    assert all(f'"{name}"' in states[-1] for name in ARGUMENTS)
    assert "what was asked is shown when the answer has ended" in states[-1]


@pytest.mark.parametrize(
    ("target", "data"),
    [
        ("/events", b'{"choices": [{"delta": {"content": "x"}}]}'),
        ("/v1/chat/completions", b"not JSON"),
        ("/v1/chat/completions", b"[" * 100_000),
        ("/v1/chat/completions", b'"\xff"'),
        ("/v1/chat/completions", b'{"choices": 7}'),
        ("/v1/messages", b'{"type": "content_block_delta", "delta": [1]}'),
    ],
)
def test_other_events(target: str, data: bytes) -> None:
    assert "nothing shows a call" in shown(events_of(target, [data]))


def test_messages_that_are_no_events() -> None:
    [event] = events_of("/v1/chat/completions", [b"{}"])
    assert "nothing shows a call" in shown([{**event, "opcode": "text"}])
    assert "nothing shows a call" in shown([{**event, "target": None}])
    grpc = {"type": "grpc", "service": "a.B", "method": "C", "data": {"size": 0, "text": ""}}
    assert "nothing shows a call" in shown([grpc, event])
    assert "it is no call" in conversation_lines(None)[0].text
