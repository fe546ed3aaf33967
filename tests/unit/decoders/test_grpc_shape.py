"""gRPC on HTTP/2 connections that were joined when HPACK knew their Content-Type already."""

import json

import pytest

from sslsniff.decoders.messages import GrpcMessage, Message, RequestHead, Side
from tests.unit.decoders.test_carried import Http2Wire, carried, flowed, prefixed, request
from tests.unit.decoders.wires import C, S, Step, run

PROOFS = 4


def calls(*bodies: tuple[bytes, bytes], kind: str = "application/grpc") -> list[list[Step]]:
    """Return the steps of a connection, call by call, each with a body both ways."""
    wire = Http2Wire()
    field = ("content-type", kind)
    steps: list[list[Step]] = []
    for at, (asked, answered) in enumerate(bodies):
        wire.wire = []
        stream = 2 * at + 1
        wire.send(C, request("/demo.Greeter/SayHello", field), stream=stream)
        wire.send(C, ("send_data", asked), stream=stream, end_stream=True)
        wire.send(S, ("send_headers", [(":status", "200"), field]), stream=stream)
        wire.send(S, ("send_data", answered), stream=stream)
        wire.send(S, ("send_headers", [("grpc-status", "0")]), stream=stream, end_stream=True)
        steps.append(wire.wire)
    return steps


def joined(steps: list[list[Step]], size: int = 1 << 30) -> list[Message]:
    """Return what is read of a connection whose first call was missed."""
    return run(carried("h2"), [step for call in steps[1:] for step in call], size)


def body(at: int) -> bytes:
    return prefixed(b"question %d" % at)


CALLS = [(body(at), prefixed(b"") + body(at)) for at in range(10)]


@pytest.mark.parametrize("size", [1 << 30, 1])
def test_calls_behind_the_proof_are_read(size: int) -> None:
    messages = joined(calls(*CALLS), size)
    heads = [each for each in messages if isinstance(each, RequestHead)]
    assert len(heads) == 9
    assert all((None, None) in head.headers for head in heads)
    expected: list[Message] = []
    for at in range(1 + PROOFS, 10):
        data = b"question %d" % at
        stream = 2 * at + 1
        expected += [
            GrpcMessage(stream, C, data, len(data)),
            GrpcMessage(stream, S, b"", 0),
            GrpcMessage(stream, S, data, len(data)),
        ]
    assert flowed(messages) == expected


OTHERS = {
    "json": json.dumps({"a": 1}).encode(),
    "connect": prefixed(b"data") + b"\x02" + prefixed(b"{}")[1:],
    "grpc-web": prefixed(b"data") + b"\x80" + prefixed(b"grpc-status: 0")[1:],
    "one byte more": prefixed(b"data") + b"\0",
    "one byte less": prefixed(b"data")[:-1],
    "nothing": b"",
}


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("side", Side)
def test_what_is_not_grpc_is_never_read(name: str, side: Side) -> None:
    bodies = (OTHERS[name], body(1)) if side is C else (body(1), OTHERS[name])
    assert flowed(joined(calls(*[bodies] * 12))) == []


def test_one_other_body_rules_it_out() -> None:
    """Also where it comes late: what follows is not read, and no more is told of the other."""
    late = [*CALLS[: 2 + PROOFS], (b"{}", b"{}"), *CALLS]
    told = [each.stream for each in flowed(joined(calls(*late))) if isinstance(each, GrpcMessage)]
    assert set(told) == {2 * (1 + PROOFS) + 1}


def test_a_known_content_type_needs_no_proof() -> None:
    for kind in ("application/json", "application/x-thing"):
        steps = calls(*CALLS, kind=kind)
        assert flowed(run(carried("h2"), [step for call in steps for step in call])) == []


def test_losses_prove_nothing_and_rule_nothing_out() -> None:
    steps = calls(*CALLS)
    side, data = steps[2][-1]
    assert isinstance(data, bytes)
    cut = [*steps[:2], [*steps[2][:-1], (side, len(data))], *steps[3:]]
    told = {each.stream for each in flowed(joined(cut)) if isinstance(each, GrpcMessage)}
    assert told == {2 * at + 1 for at in range(2 + PROOFS, 10)}
