"""http2jp/http2-frame-test-case: each field of valid frames, and each wrong frame reported."""

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from sslsniff.decoders.http2.frames import (
    CONTINUATION,
    DATA,
    GOAWAY,
    HEADER_SIZE,
    HEADERS,
    PING,
    PRIORITY,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    describe,
    error_name,
    setting_name,
    strip,
    type_name,
    unpack_header,
)
from sslsniff.decoders.http2.http2_decoder import Http2Decoder
from sslsniff.decoders.messages import Frame, Message, Undecoded
from tests.corpus.conftest import corpus
from tests.corpus.differences import FRAMES
from tests.unit.decoders.wires import END, C, S, frame, run

FOLDER = corpus("http2-frame-test-case")
CASES = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.glob("*/*.json"))
VALID = [case for case in CASES if not case.startswith("error/")]
WRONG = [case for case in CASES if case.startswith("error/")]


def load(path: Path) -> tuple[bytes, dict[str, Any]]:
    case = json.loads(path.read_text())
    return bytes.fromhex(case["wire"]), case


def decode(wire: bytes, size: int | Random = 1 << 30) -> list[Message]:
    # Only a server sends PUSH_PROMISE; a ping after the frame shows that step is kept.
    decoder = Http2Decoder(frames=True)
    run(decoder, [(C, b""), (S, frame(SETTINGS, 0, 0))])
    return run(decoder, [(S, wire + frame(PING, 0, 0, b"in step?")), (S, END)], size)


def test_all_cases_are_there() -> None:
    assert (len(VALID), len(WRONG)) == (12, 22)


@pytest.mark.parametrize("case", VALID)
def test_valid(case: str) -> None:
    wire, told = load(FOLDER / case)
    true = told["frame"]
    length_type, flags, stream = unpack_header(wire, 0)
    length, kind = length_type >> 8, length_type & 0xFF
    assert (length, kind, flags, stream) == (
        true["length"],
        true["type"],
        true["flags"],
        true["stream_identifier"],
    )
    payload = wire[HEADER_SIZE:]
    details = describe(kind, flags, payload)
    fields = true["frame_payload"]
    assert details.pop("padding", 0) == (fields.get("padding_length") or 0)
    priority = {}
    if fields.get("stream_dependency") is not None or kind == PRIORITY:
        priority = {
            "depends_on": fields["stream_dependency"],
            "exclusive": fields["exclusive"],
            "weight": fields["weight"],
        }
    expected: dict[int, Callable[[], object]] = {
        DATA: lambda: {"data": fields["data"].encode()},
        HEADERS: lambda: priority,
        PRIORITY: lambda: priority,
        RST_STREAM: lambda: {"error_code": error_name(fields["error_code"])},
        SETTINGS: lambda: {
            "settings": {setting_name(key): value for key, value in fields["settings"]}
        },
        PUSH_PROMISE: lambda: {"promised_stream": fields["promised_stream_id"]},
        PING: lambda: {"data": fields["opaque_data"].encode()},
        GOAWAY: lambda: {
            "last_stream": fields["last_stream_id"],
            "error_code": error_name(fields["error_code"]),
            "data": fields["additional_debug_data"].encode(),
        },
        WINDOW_UPDATE: lambda: {"increment": fields["window_size_increment"]},
        CONTINUATION: lambda: {},
    }
    assert details == expected[kind]()
    if kind in (HEADERS, PUSH_PROMISE):
        assert strip(kind, flags, payload) == fields["header_block_fragment"].encode()
    assert decode(wire, 1) == decode(wire, Random(case)) == decode(wire)
    shown = [m for m in decode(wire) if isinstance(m, Frame)]
    assert [m.type for m in shown] == [type_name(kind), "PING"]
    assert (shown[0].stream, shown[0].length) == (stream, length)


@pytest.mark.parametrize("case", WRONG)
def test_wrong(case: str) -> None:
    wire, _ = load(FOLDER / case)
    messages = decode(wire)
    assert decode(wire, 1) == decode(wire, Random(case)) == messages
    assert any(isinstance(m, Undecoded) for m in messages)
    kept = [m.type for m in messages if isinstance(m, Frame)][-1:] == ["PING"]
    assert kept == (case not in FRAMES)
