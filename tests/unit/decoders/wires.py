"""Wires, which are what passed on a connection, and how to run them through a decoder."""

import struct
from collections.abc import Callable, Iterable
from dataclasses import replace
from random import Random

from sslsniff.decoders.decoder import BodyReader, Decoder
from sslsniff.decoders.inner.partial_messages import Room
from sslsniff.decoders.messages import BodyData, Message, Side, Undecoded, in_pieces

C, S = Side.CLIENT, Side.SERVER

END = "end"
Step = tuple[Side, bytes | int | str]
"""Bytes that a side sent, a number of lost bytes, or END."""

# A valid message that may follow anything: it must not change what came before it.
TAILS = {
    "http/1.1": {
        C: b"TAIL /tail HTTP/1.1\r\nHost: tail\r\n\r\n",
        S: b"HTTP/1.1 299 Tail\r\nContent-Length: 0\r\n\r\n",
    },
    "http/2": {side: b"\0\0\x08\x06\0\0\0\0\0trailing" for side in Side},
}


def merge(messages: Iterable[Message]) -> list[Message]:
    """Join pieces of one body, and of one undecoded run, as chunking is nobody's business.

    So it is whether a message comes whole: it is told in pieces.
    """
    merged: list[Message] = []
    for message in in_pieces(messages):
        last = merged[-1] if merged else None
        match last, message:
            case (BodyData(), BodyData()) if (last.stream, last.side) == (
                message.stream,
                message.side,
            ) and not (last.data and message.missing):
                merged[-1] = replace(
                    last,
                    data=last.data + message.data,
                    missing=last.missing + message.missing,
                )
            case (Undecoded(), Undecoded()) if (last.side, last.reason) == (
                message.side,
                message.reason,
            ):
                merged[-1] = replace(
                    last, data=last.data + message.data, size=last.size + message.size
                )
            case _:
                merged.append(message)
    return merged


def run(decoder: Decoder, wire: Iterable[Step], size: int | Random = 1 << 30) -> list[Message]:
    """Feed a wire in pieces of ``size`` bytes, or of random sizes; return the merged messages."""
    out: list[Message] = []
    for side, step in wire:
        if isinstance(step, bytes):
            at = 0
            while at < len(step):
                stop = at + (size if isinstance(size, int) else size.randint(1, 50))
                out += decoder.feed(side, step[at:stop])
                at = stop
        elif isinstance(step, int):
            out += decoder.gap(side, step)
        else:
            out += decoder.end(side)
    return merge(out)


def read_body(
    reader: BodyReader, room: Room, steps: Iterable[bytes | int], size: int = 1 << 30
) -> list[Message]:
    """Return what a body in pieces of ``size`` bytes, with gaps, gives; all room is given back."""
    before = room.free_bytes
    out: list[Message] = []
    for step in steps:
        if isinstance(step, int):
            reader.gap(step, out)
            continue
        for at in range(0, len(step), size):
            reader.feed(step[at : at + size], out)
    reader.end(out)
    assert room.free_bytes == before
    return out


def check(
    wire: list[Step],
    messages: list[Message],
    make: Callable[[], Decoder],
    *,
    trailing: bool = True,
) -> None:
    """Assert what a wire decodes to: whole, byte by byte, and with a message after it."""
    decoder = make()
    assert run(decoder, wire) == messages
    assert run(make(), wire, 1) == messages, "byte by byte"
    side, last = wire[-1]
    if trailing and isinstance(last, bytes):
        tail = TAILS.get(decoder.protocol, {}).get(side, b"")
        got = run(make(), [*wire[:-1], (side, last + tail)])
        assert got[: len(messages)] == messages, "with trailing bytes"


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """Make an HTTP/2 frame."""
    return struct.pack(">IBI", len(payload) << 8 | kind, flags, stream) + payload
