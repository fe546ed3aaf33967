"""Secrets in JSON-RPC are blanked, and its calls are understood all the same."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import regex

from sslsniff.core.model import Chunk, Direction, Peer
from sslsniff.decoders.json_rpc.json_rpc_decoder import JsonRpcDecoder
from sslsniff.decoders.messages import Side
from sslsniff.redaction.redactor import Redactor
from sslsniff.redaction.rules import Rules
from tests.unit.captures import READ, WRITE, Step
from tests.unit.decoders.json_rpc.test_json_rpc import asked, framed, line, seen
from tests.unit.decoders.wires import run
from tests.unit.exchanges import connection

SECRET = "Xq7Lm2K9wZt4Rb8Y"
PIN = 71938264
NUMBER = "pattern-77281934"
COMMAND = ("python3", "/srv/tools.py", "--token", SECRET)


class Received:
    """Receives what a redactor passes on."""

    def __init__(self) -> None:
        self.chunks: list[Chunk] = []

    def chunk(self, chunk: Chunk) -> None:
        self.chunks.append(chunk)

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: None


def messages() -> Iterator[tuple[Direction, bytes]]:
    arguments = {"path": "/a", "password": SECRET, "secret": {"a": [SECRET]}}
    yield READ, b"tools are ready\n"
    yield WRITE, asked(1, "tools/call", name="log_in", arguments={**arguments, "passcode": PIN})
    text = f"Authorization: Bearer {SECRET}, {NUMBER}"
    yield READ, line(id=1, result={"content": [{"type": "text", "text": text}]})
    yield WRITE, asked(2, "tools/call", name="next", arguments={"tokens": [SECRET, 7]})
    yield READ, f'log: api_key="{SECRET}"\n'.encode()
    yield READ, line(id=2, error={"code": 7, "message": "no", "data": {"access_token": SECRET}})


def redacted(steps: list[Step]) -> dict[Direction, bytes]:
    received = Received()
    redactor = Redactor(
        received,
        Rules(defaults=True, patterns=[regex.compile(rb"pattern-\d{8}")]),
    )
    one = replace(connection(), role=Side.CLIENT, peer=Peer(8, "python3", COMMAND))
    redactor.opened(one, 0)
    for number, (direction, what) in enumerate(steps):
        missing, data = (what, b"") if isinstance(what, int) else (0, what)
        redactor.chunk(Chunk(one, direction, number, 7, 0, data, missing))
    redactor.closed(one, 99)
    assert one.peer is not None
    assert one.peer.command == ("python3", "tools.py")
    return {
        each: b"".join(chunk.data for chunk in received.chunks if chunk.direction is each)
        for each in Direction
    }


def has_secrets(data: bytes) -> bool:
    return any(str(each).encode() in data for each in (SECRET, PIN, NUMBER))


@pytest.mark.parametrize("size", [1 << 20, 1, 7])
@pytest.mark.parametrize("is_framed", [False, True])
def test_secrets_are_blanked(size: int, is_framed: bool) -> None:
    sent = [
        (direction, framed(data.strip()) if is_framed and data.startswith(b"{") else data)
        for direction, data in messages()
    ]
    steps: list[Step] = [
        (direction, data[at : at + size])
        for direction, data in sent
        for at in range(0, len(data), size)
    ]
    found = redacted(steps)
    for direction in Direction:
        before = b"".join(data for each, data in sent if each is direction)
        assert len(found[direction]) == len(before)
        assert has_secrets(before)
        assert not has_secrets(found[direction])
    calls = run(JsonRpcDecoder(), [(Side.CLIENT, found[WRITE]), (Side.SERVER, found[READ])])
    assert [each for each in seen(calls) if each[0] != "undecoded"] == [
        ("tools/call", "log_in", "ok"),
        ("tools/call", "next", "7: no"),
    ]


def test_a_loss_in_the_middle_of_a_secret() -> None:
    first, second = json.dumps({"password": SECRET}), asked(3, "b", password=SECRET)
    whole = asked(1, "a", x=1) + asked(2, "a", y=first)
    at = whole.find(SECRET[4:].encode())
    steps: list[Step] = [(WRITE, whole[:at]), (WRITE, 3), (WRITE, whole[at + 3 :] + second)]
    found = redacted(steps)[WRITE]
    assert SECRET[:4].encode() not in found
    assert SECRET[7:].encode() not in found
    [*_, last] = run(JsonRpcDecoder(), [(Side.CLIENT, found.splitlines(keepends=True)[-1])])
    assert last.call.method == "b"  # type: ignore[union-attr]
