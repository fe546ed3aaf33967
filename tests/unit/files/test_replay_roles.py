"""Captures in which the side asks that accepted the TCP connection."""

import json
from pathlib import Path

import pytest

from tests.unit.captures import READ, WRITE, answer, get, http2_steps
from tests.unit.files.foreign import FAR, NEAR, Wire
from tests.unit.files.test_replay_foreign import read

pytestmark = pytest.mark.heavy


@pytest.mark.parametrize("preface", [False, True])
def test_the_side_that_accepted_may_ask(tmp_path: Path, preface: bool) -> None:
    tcp = Wire()
    tcp.handshake()
    if preface:
        far, near = http2_bytes()
        tcp.send(FAR, far)
        tcp.send(NEAR, near)
    else:
        tcp.send(FAR, get("/a"))
        tcp.send(NEAR, answer(b"ok"))
    tcp.end()
    tcp.write(tmp_path / "file")
    found = [json.loads(line) for line in read(tmp_path / "file", "--json")]
    [exchange] = [each for each in found if each["type"] == "exchange"]
    assert exchange["response"]["status"] == 200
    assert (exchange["client"]["ip"], exchange["server"]["ip"]) == (FAR[0], NEAR[0])
    assert not [each for each in found if each["type"] == "undecoded"]


def http2_bytes() -> tuple[bytes, bytes]:
    """Return what passes for one request, from the client and from the server."""
    sent = {READ: b"", WRITE: b""}
    for direction, step in http2_steps(1, b"ok"):
        assert isinstance(step, bytes)
        sent[direction] += step
    return sent[WRITE], sent[READ]
