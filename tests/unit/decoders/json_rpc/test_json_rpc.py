"""JSON-RPC: calls of both sides, notifications, batches, what is no message, losses."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sslsniff.decoders.detect import Detector
from sslsniff.decoders.json_rpc.json_rpc_decoder import MOST_OPEN, JsonRpcDecoder
from sslsniff.decoders.json_rpc.json_rpc_search import JsonRpcSearch
from sslsniff.decoders.json_rpc.message_splitter import MESSAGE_BYTES
from sslsniff.decoders.json_rpc.parsed_messages import TOO_LONG
from sslsniff.decoders.json_rpc.rpc_call import RpcCall
from sslsniff.decoders.messages import Message, RpcEnd, RpcNotification, RpcStart, Side, Undecoded
from tests.unit.decoders.wires import END, C, S, Step, check, run


def line(**fields: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **fields}, separators=(",", ":")).encode() + b"\n"


def asked(id: Any, method: str, **params: Any) -> bytes:
    return line(id=id, method=method, params=params)


def framed(body: bytes) -> bytes:
    return b"Content-Length: %d\r\nContent-Type: application/json\r\n\r\n%b" % (len(body), body)


READ = asked(1, "tools/call", name="read_file", arguments={"path": "/a"})
TEXT = line(id=1, result={"content": [{"type": "text", "text": "hello"}]})
Seen = tuple[str, ...]
"""Of a call: its method, name, error, how it ended."""


def seen(messages: list[Message]) -> list[Seen]:
    """Return the calls in the order of their ends, then what else there is."""
    calls: dict[int, RpcCall] = {}
    found: list[Seen] = []
    for each in messages:
        if isinstance(each, RpcStart):
            calls[each.stream] = each.call
        elif isinstance(each, RpcEnd):
            call = calls.pop(each.stream)
            what = f"{call.code}: {call.error}" if call.error else each.error or "ok"
            found.append((call.method, call.name or "", what))
        elif isinstance(each, RpcNotification):
            found.append((each.method, str(each.stream)))
        elif isinstance(each, Undecoded):
            found.append(("undecoded", str(each.size), each.reason))
    return [*found, *((call.method, call.name or "", "open") for call in calls.values())]


NO_MESSAGE = "no message of JSON-RPC"
CASES: dict[str, tuple[list[Step], list[Seen]]] = {
    "a call": ([(C, READ), (S, TEXT)], [("tools/call", "read_file", "ok")]),
    "a tool that failed": (
        [(C, READ), (S, line(id=1, result={"isError": True, "content": [{"text": "no file"}]}))],
        [("tools/call", "read_file", "None: no file")],
    ),
    "a tool that failed without a word": (
        [(C, READ), (S, line(id=1, result={"isError": True}))],
        [("tools/call", "read_file", "None: the tool failed")],
    ),
    "an error": (
        [(C, READ), (S, line(id=1, error={"code": -32602, "message": "no tool"}))],
        [("tools/call", "read_file", "-32602: no tool")],
    ),
    "two at once, answered in another order": (
        [
            (C, READ + asked("1", "resources/read", uri="file:///b")),
            (S, line(id="1", result={}) + TEXT),
        ],
        [("resources/read", "file:///b", "ok"), ("tools/call", "read_file", "ok")],
    ),
    "a server that asks": (
        [(C, READ), (S, asked(1, "roots/list")), (C, line(id=1, result={})), (S, TEXT)],
        [("roots/list", "", "ok"), ("tools/call", "read_file", "ok")],
    ),
    "an answer that is seen before its request": (
        [(S, TEXT), (C, READ)],
        [("tools/call", "read_file", "ok")],
    ),
    "an answer to nothing": (
        [(S, TEXT), (S, END)],
        [("undecoded", str(len(TEXT) - 1), "an answer to no request that was seen")],
    ),
    "notifications": (
        [(C, line(method="notifications/initialized")), (S, line(method="x", params=[1]))],
        [("notifications/initialized", "0"), ("x", "0")],
    ),
    "progress": (
        [
            (C, asked(7, "tools/call", name="a", _meta={"progressToken": "t"})),
            (S, line(method="notifications/progress", params={"progressToken": "t"})),
            (S, line(method="notifications/progress", params={"progressToken": "u"})),
            (S, line(id=7, result={})),
        ],
        [
            ("notifications/progress", "1"),
            ("notifications/progress", "0"),
            ("tools/call", "a", "ok"),
        ],
    ),
    "cancelled, and answered all the same": (
        [
            (C, READ),
            (C, line(method="notifications/cancelled", params={"requestId": 1, "reason": "slow"})),
            (S, TEXT),
        ],
        [
            ("notifications/cancelled", "1"),
            ("tools/call", "read_file", "cancelled: slow"),
            ("undecoded", str(len(TEXT) - 1), "an answer to no request that was seen"),
        ],
    ),
    "a batch": (
        [(C, b"[" + READ.strip() + b"," + asked(2, "ping").strip() + b"]\n"), (S, TEXT)],
        [("tools/call", "read_file", "ok"), ("ping", "", "open")],
    ),
    "lines of a log": (
        [(S, b"starting\n\n"), (C, READ), (S, b'{"level":"info"}\n[1]\n' + TEXT + b"bye")],
        [
            ("undecoded", "8", NO_MESSAGE),
            ("undecoded", "19", NO_MESSAGE),
            ("tools/call", "read_file", "ok"),
        ],
    ),
    "line ends of Windows": (
        [(C, READ.replace(b"\n", b"\r\n")), (S, b"\r\n" + TEXT)],
        [("tools/call", "read_file", "ok")],
    ),
    "headers with lengths": (
        [
            (C, framed(asked(1, "textDocument/hover", textDocument={"uri": "file:///a"}))),
            (S, framed(line(id=1, result=None)) + framed(line(method="$/x", params={}).strip())),
        ],
        [("textDocument/hover", "file:///a", "ok"), ("$/x", "0")],
    ),
    "an id that is used again": (
        [(C, READ + READ), (S, TEXT)],
        [
            ("tools/call", "read_file", "its id was used again"),
            ("tools/call", "read_file", "ok"),
        ],
    ),
    "the server ends": (
        [(C, READ), (S, TEXT[:20]), (S, END)],
        [
            ("undecoded", "20", "connection closed"),
            ("tools/call", "read_file", "connection closed"),
        ],
    ),
    "a loss in an answer": (
        [(C, READ), (S, TEXT[:20]), (S, 10), (S, TEXT[30:] + line(id=1, result={}))],
        [
            ("undecoded", str(20 + len(TEXT) - 31), "bytes lost"),
            ("tools/call", "read_file", "ok"),
        ],
    ),
    "a loss in a body with a length": (
        [(C, framed(READ)[:60]), (C, 5), (C, framed(READ)[65:] + framed(READ)), (S, framed(TEXT))],
        [
            ("undecoded", str(len(READ) - 5), "bytes lost"),
            ("tools/call", "read_file", "ok"),
        ],
    ),
    "values that redaction blanked": (
        [
            (C, READ.replace(b'"path":"/a"', b'"pin":****,"a":{****},"b":[***]')),
            (S, TEXT.replace(b"hello", b"*****")),
        ],
        [("tools/call", "read_file", "ok")],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_cases(case: str) -> None:
    wire, expected = CASES[case]
    whole = run(JsonRpcDecoder(), wire)
    assert seen(whole) == expected
    check(wire, whole, JsonRpcDecoder, trailing=False)


@pytest.mark.parametrize("case", CASES)
def test_what_follows_changes_nothing(case: str) -> None:
    wire, expected = CASES[case]
    side, last = wire[-1]
    if isinstance(last, bytes) and last.endswith((b"\n", b"}")):
        more = run(JsonRpcDecoder(), [*wire[:-1], (side, last + asked(99, "ping"))])
        closed = [each for each in expected if each[-1] != "open"]
        assert seen(more)[: len(closed)] == closed


def test_what_a_call_says() -> None:
    call = RpcCall(
        "mcp",
        "tools/call",
        1,
        name="read_file",
        parameters='{"name":"read_file","arguments":{"path":"/a"}}',
        request_bytes=len(READ) - 1,
        result='{"content":[{"type":"text","text":"hello"}]}',
        response_bytes=len(TEXT) - 1,
    )
    start, end = run(JsonRpcDecoder(), [(C, READ), (S, TEXT)])
    assert isinstance(start, RpcStart)
    assert start.call == call
    assert end == RpcEnd(1)
    assert start.model_call is not None
    assert start.model_call.method == "tools/call"
    assert "".join(start.model_call.texts) == "hello"
    assert [each.name for each in start.model_call.tool_calls] == ["read_file"]


@pytest.mark.parametrize(
    ("first", "protocol"),
    [
        (asked(0, "initialize", protocolVersion="2025-06-18"), "mcp"),
        (asked(0, "initialize", protocolVersion=1), "json-rpc"),
        (asked(0, "initialize", processId=7), "json-rpc"),
        (framed(asked(0, "initialize", processId=7)), "lsp"),
        (READ, "mcp"),
        (asked(0, "eth_blockNumber"), "json-rpc"),
    ],
)
def test_the_protocol_that_is_made_of_it(first: bytes, protocol: str) -> None:
    decoder = JsonRpcDecoder()
    start = decoder.feed(C, first)[0]
    assert isinstance(start, RpcStart)
    assert (decoder.protocol, start.call.protocol) == (protocol, protocol)
    assert (start.model_call is not None) == (protocol == "mcp")


@pytest.mark.parametrize("is_last", [False, True])
def test_messages_that_are_too_long(is_last: bool) -> None:
    """Their ids are read all the same: calls end."""
    size = MESSAGE_BYTES
    beginning, end = (b"", b',"id":1') if is_last else (b'"id":1,', b"")
    text = b'"' + b"x" * size + b'"'
    request = b'{"jsonrpc":"2.0",%b"method":"a/b","params":[%b]%b}\n' % (beginning, text, end)
    answer = b'{"jsonrpc":"2.0",%b"result":%b%b}\n' % (beginning, text, end)
    decoder = JsonRpcDecoder()
    messages = run(decoder, [(C, request), (S, answer)], 1 << 16)
    assert seen(messages) == [("a/b", "", "ok")]
    [start] = [each for each in messages if isinstance(each, RpcStart)]
    assert start.call.fault == TOO_LONG
    assert (start.call.request_bytes, start.call.response_bytes) == (
        len(request) - 1,
        len(answer) - 1,
    )
    assert decoder.held_bytes == 0


DEEP = b'{"jsonrpc":"2.0","id":1,%b:' + b"[" * 500 + b"]" * 500 + b"}\n"
HOSTILE: dict[str, tuple[bytes, list[Seen]]] = {
    "nested deeply": (DEEP % b'"method":"a","params"', [("a", "", "open")]),
    "an answer that is nested deeply": (
        DEEP % b'"result"',
        [("undecoded", str(len(DEEP % b'"result"') - 1), "an answer to no request that was seen")],
    ),
    "an id that is no text": (
        b'{"jsonrpc":"2.0","id":"\xcf\xdd","method":"a","params":{\n',
        [("undecoded", "50", NO_MESSAGE)],
    ),
    "ids of all kinds": (
        b"".join(
            b'{"jsonrpc":"2.0","id":%b,"method":"a"}\n' % id
            for id in (b"true", b"1.5", b"[]", b"{}", b"1", b"1e400")
        ),
        [("undecoded", "41", NO_MESSAGE), *[("a", "", "open")] * 5],
    ),
    "members of other kinds": (
        b'{"jsonrpc":"2.0","id":1,"method":[],"params":7,"result":8,"error":9}\n',
        [("undecoded", "68", "an answer to no request that was seen")],
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_messages(case: str) -> None:
    wire, expected = HOSTILE[case]
    decoder = JsonRpcDecoder()
    messages = decoder.feed(C, wire)
    if expected[0][0] == "undecoded" and "answer" in expected[0][-1]:
        messages += decoder.end(C)
    assert seen(messages) == expected


def test_calls_that_are_never_answered_are_bounded() -> None:
    decoder = JsonRpcDecoder()
    wire: list[Step] = [(C, asked(n, "ping")) for n in range(MOST_OPEN + 10)]
    ends = [each for each in run(decoder, wire) if isinstance(each, RpcEnd)]
    assert [each.stream for each in ends] == [*range(1, 11)]


def test_answers_without_requests_are_bounded() -> None:
    decoder = JsonRpcDecoder()
    run(decoder, [(S, line(id=n, result="x" * 1000)) for n in range(10_000)])
    assert decoder.held_bytes < 1 << 20


@pytest.mark.parametrize(
    ("first", "is_json_rpc"),
    [
        (READ, True),
        (b" \n" + READ, True),
        (framed(READ), True),
        (READ[: READ.find(b'"2.0"')], None),
        (b"[" + READ, True),
        (b'{"level":"info"}\n' + READ, False),
        (b"hello " + READ, False),
        (b"Content-Type: x\r\n\r\n" + READ, False),
        (b"Content-Length: 5\r\n", None),
        (b'{"a":"' + b"x" * (70 << 10), False),
        (b"", None),
    ],
)
@pytest.mark.parametrize("size", [1 << 20, 1])
def test_recognised(first: bytes, is_json_rpc: bool | None, size: int) -> None:
    search = JsonRpcSearch()
    verdict = None
    for at in range(0, len(first), size):
        verdict = search.feed(first[at : at + size])
    assert verdict is is_json_rpc


def test_a_connection_is_recognised_after_lines_of_a_log() -> None:
    detector = Detector(from_start=True)
    messages = run(detector, [(S, b"starting\n"), (C, READ), (S, TEXT)])
    assert seen(messages) == [("undecoded", "8", NO_MESSAGE), ("tools/call", "read_file", "ok")]
    assert detector.protocol == "mcp"


def test_it_goes_on_after_its_memory_was_freed() -> None:
    detector = Detector(from_start=True)
    run(detector, [(C, READ)])
    successor = detector.successor()
    wire: list[Step] = [(C, b"rest\n" + READ), (S, b"rest\n" + TEXT)]
    assert [each for each in seen(run(successor, wire)) if each[0] != "undecoded"] == [
        ("tools/call", "read_file", "ok")
    ]


_TEXTS = [text for text, _ in HOSTILE.values()] + [
    step for wire, _ in CASES.values() for side, step in wire if isinstance(step, bytes)
]
_STEPS = st.tuples(
    st.sampled_from(Side),
    st.one_of(
        st.sampled_from(_TEXTS),
        st.binary(max_size=20),
        st.integers(1, 300),
        st.just(END),
    ),
)


@pytest.mark.tools
@settings(deadline=None)
@given(wire=st.lists(_STEPS, max_size=12), size=st.integers(1, 40))
def test_any_division_gives_the_same(wire: list[Step], size: int) -> None:
    """Nothing raises, each call ends once, and each byte is undecoded at most once."""
    whole = _ended(wire)
    cut = _ended(wire, size)
    assert cut == whole
    sent = sum(len(step) for _, step in wire if isinstance(step, bytes))
    assert sum(each.size for each in whole if isinstance(each, Undecoded)) <= sent
    ends = [each.stream for each in whole if isinstance(each, RpcEnd)]
    starts = [each.stream for each in whole if isinstance(each, RpcStart)]
    assert sorted(ends) == starts


def _ended(wire: list[Step], size: int = 1 << 30) -> list[Message]:
    ended: set[Side] = set()
    steps: list[Step] = []
    for side, step in wire:
        if side not in ended:
            steps.append((side, step))
        if step == END:
            ended.add(side)
    more: list[Step] = [(side, END) for side in Side if side not in ended]
    return run(JsonRpcDecoder(), [*steps, *more], size)
