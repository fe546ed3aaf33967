"""HTTP/2 with bytes lost, or joined in the middle."""

from random import Random

import pytest
from hpack import Encoder

from sslsniff.decoders.http2.frames import (
    CONTINUATION,
    DATA,
    HEADERS,
    PING,
    SETTINGS,
    WINDOW_UPDATE,
)
from sslsniff.decoders.http2.http2_decoder import Http2Decoder
from sslsniff.decoders.messages import (
    BodyData,
    BodyInDoubt,
    Headers,
    Message,
    MessageEnd,
    RequestHead,
    ResponseHead,
    Undecoded,
)
from tests.unit.decoders.http2_wires import ASK, HELLO, START, answer, answered, ask, asked, block
from tests.unit.decoders.traffic import h2_traffic
from tests.unit.decoders.wires import C, S, Step, frame, run

PINGS = frame(PING, 0, 0, b"12345678") * 2
LONG = 500_000  # bytes of a frame, as Go's servers allow them

GAPS: dict[str, tuple[list[Step], list[Message]]] = {
    "in DATA": (
        [
            (C, ask(1)),
            (S, answer(1) + frame(DATA, 1, 1, b"0123456789")[:12]),
            (S, 4),
            (S, b"789" + frame(PING, 0, 0, b"12345678") + answer(3, "404", 5)),
        ],
        [
            *asked(1),
            answered(1),
            BodyData(1, S, b"012"),
            BodyData(1, S, b"789", 4),
            MessageEnd(1, S),
            answered(3, 404),
            MessageEnd(3, S),
        ],
    ),
    "in a header block": (
        [(C, ask(1)[:12]), (C, 2), (C, ask(1)[14:] + ask(3))],
        [
            MessageEnd(1, C),
            Undecoded(C, ask(1)[:12] + ask(1)[14:], len(ask(1)) - 2, "bytes lost"),
            *asked(3),
        ],
    ),
    "between frames": (
        [(C, ask(1)), (C, 500), (C, ask(5))],
        [*asked(1), *asked(5)],
    ),
    "beyond DATA, one stream open": (
        [
            (C, ask(1)),
            (S, answer(1) + frame(DATA, 0, 1, b"0123456789")[:12]),
            (S, 50),
            (S, b"the tail of some frame" + frame(DATA, 0, 1, b"x" * 300) + frame(DATA, 1, 1)),
        ],
        [
            *asked(1),
            answered(1),
            BodyData(1, S, b"012"),
            BodyData(1, S, b"", 50),
            BodyInDoubt(1, S),
            Undecoded(S, b"the tail of some frame", 22, "bytes lost"),
            BodyData(1, S, b"x" * 300),
            MessageEnd(1, S),
        ],
    ),
    "beyond DATA, two streams open, one ended": (
        [
            (C, ask(1) + ask(3) + ask(5)),
            (S, answer(1) + answer(3) + answer(5, "204", 5)),
            (S, 50),
            (S, frame(DATA, 0, 3, b"x" * 300) + frame(DATA, 1, 3)),
        ],
        [
            *(*asked(1), *asked(3), *asked(5), answered(1), answered(3)),
            *(answered(5, 204), MessageEnd(5, S), BodyInDoubt(1, S), BodyInDoubt(3, S)),
            BodyData(3, S, b"x" * 300),
            MessageEnd(3, S),
        ],
    ),
    "before the rest of a header block": (
        [
            (C, frame(HEADERS, 1, 1, block(ASK)[:2])),
            (C, 9),
            (C, frame(CONTINUATION, 4, 1, block(ASK)[2:]) + PINGS + ask(3)),
        ],
        [
            Undecoded(C, block(ASK)[:2], 2, "bytes lost"),
            MessageEnd(1, C),
            Undecoded(C, block(ASK)[2:], 4, "CONTINUATION frame without its HEADERS"),
            *asked(3),
        ],
    ),
    "in the rest of a header block": (
        [
            (C, frame(HEADERS, 1, 1, block(ASK)[:2]) + frame(CONTINUATION, 4, 1, bytes(5))[:11]),
            (C, 2),
            (C, b"\0" + ask(3)),
        ],
        [
            Undecoded(C, block(ASK)[:2], 2, "bytes lost"),
            MessageEnd(1, C),
            Undecoded(C, frame(CONTINUATION, 4, 1, bytes(5))[:12], 12, "bytes lost"),
            *asked(3),
        ],
    ),
}


@pytest.mark.parametrize("name", GAPS)
def test_gaps(name: str) -> None:
    wire, messages = GAPS[name]
    for size in (1 << 30, 1, 7):
        assert run(Http2Decoder(), START + wire, size) == messages


def test_joined_in_the_middle() -> None:
    wire: list[Step] = [
        (S, b"tail of DATA" + frame(DATA, 1, 7, b"y" * 300) + answer(9) + frame(DATA, 1, 9, b"ok")),
        (C, frame(WINDOW_UPDATE, 0, 0, b"\0\0\x10\0") + ask(11)),
    ]
    for size in (1 << 30, 1):
        assert run(Http2Decoder(), wire, size) == [
            Undecoded(S, b"tail of DATA", 12, "not the start of a frame"),
            BodyData(7, S, b"y" * 300),
            MessageEnd(7, S),
            answered(9),
            BodyData(9, S, b"ok"),
            MessageEnd(9, S),
            *asked(11),
        ]


@pytest.mark.heavy
@pytest.mark.parametrize("size", [1 << 30, 7, 100_000])
@pytest.mark.parametrize("lost", [None, 1, LONG, 3 * LONG])
def test_step_is_found_among_long_frames(lost: int | None, size: int) -> None:
    """Joined in the middle, or after a gap on a connection whose largest frame is known."""
    decoder = Http2Decoder()
    if lost is not None:
        allow = frame(SETTINGS, 0, 0, b"\0\x05\0\x10\0\0")
        start = HELLO + ask(1, flags=4) + frame(DATA, 0, 1, b"a" * LONG)
        run(decoder, [(S, allow), (C, start), (C, lost)])
    data = frame(DATA, 0, 1, b"b" * LONG)
    tail = data[LONG // 2 :]
    messages = run(decoder, [(C, tail + data * 3 + frame(DATA, 1, 1) + ask(3))], size)
    [body] = [m for m in messages if isinstance(m, BodyData)]
    # That of the frame by which step is found is not held.
    assert body == BodyData(1, C, b"b" * 2 * LONG)
    [undecoded] = [m for m in messages if isinstance(m, Undecoded)]
    assert undecoded.size == len(tail) + len(data)
    assert messages[-3:] == [MessageEnd(1, C), *asked(3)]


def test_long_frames_are_none_where_the_peer_does_not_allow_them() -> None:
    decoder = Http2Decoder()
    run(decoder, [*START, (C, ask(1, flags=4)), (C, 5)])
    long = frame(DATA, 0, 1, bytes(20_000))
    assert run(decoder, [(C, long * 3 + PINGS + ask(3))])[1:] == asked(3)


@pytest.mark.parametrize("seed", range(30))
def test_nothing_is_wrong_behind_gaps(seed: int) -> None:
    """Fields of heads after gaps are right or unknown, and bodies are pieces of the true ones."""
    random = Random(seed)
    wire, true = h2_traffic(random)
    decoder = Http2Decoder()
    messages: list[Message] = []
    for side, data in wire:
        assert isinstance(data, bytes)
        start = random.randrange(len(data)) if random.random() < 0.3 else len(data)
        stop = min(len(data), start + random.choice([1, 5, 60, 700, 5000]))
        messages += run(decoder, [(side, data[:start]), (side, stop - start), (side, data[stop:])])
    heads = 0
    for message in messages:
        match message:
            case RequestHead():
                pseudo = (message.method, message.scheme, message.authority, message.target)
                fields = [*pseudo, *message.headers]
                told = true[message.stream, C][0]
                expected = [*(value for _, value in told[:4]), *told[4:]]
            case ResponseHead() if message.status != 103:
                fields = [message.status and str(message.status), *message.headers]
                told = true[message.stream, S][0]
                expected = [told[0][1], *told[1:]]
            case BodyData():
                assert message.data in true[message.stream, message.side][1]
                continue
            case _:
                continue
        heads += 1
        # An unknown pseudo-header field is among the others: what is known must be there.
        for field in fields:
            if isinstance(field, tuple):
                assert any(
                    field[0] in (None, name) and field[1] in (None, value) for name, value in told
                )
            else:
                assert field is None or field in expected
    assert heads > 5


def test_unknown_table_entries_are_none() -> None:
    encoder = Encoder()
    encoder.encode([(":path", "/before"), ("x-old", "1")])
    blocks = [
        encoder.encode([(":method", "GET"), (":path", "/before"), ("x-old", "2"), ("x-new", "3")]),
        encoder.encode([(":method", "GET"), ("x-new", "3"), ("x-old", "1")]),
    ]
    wire: list[Step] = [
        (C, frame(WINDOW_UPDATE, 0, 0, b"\0\0\x10\0")),
        *((C, frame(HEADERS, 5, 2 * n + 1, bytes(b))) for n, b in enumerate(blocks)),
    ]
    heads = [m for m in run(Http2Decoder(), wire) if isinstance(m, RequestHead)]
    assert heads == [
        RequestHead(
            1, "HTTP/2", "GET", None, headers=Headers([(None, None), (None, "2"), ("x-new", "3")])
        ),
        RequestHead(3, "HTTP/2", "GET", None, headers=Headers([("x-new", "3"), (None, None)])),
    ]


def test_trailers_and_heads_of_streams_whose_start_was_not_seen() -> None:
    update = frame(WINDOW_UPDATE, 0, 0, b"\0\0\x10\0")
    trailers = frame(HEADERS, 5, 1, block([("grpc-status", "0")]))
    head = frame(HEADERS, 5, 3, b"\xfe")  # may be a status
    named = frame(HEADERS, 5, 5, b"\x7f\x80\x01\x01v")  # none: their names are always known
    behind = frame(DATA, 0, 7, b"body") + frame(HEADERS, 5, 7, b"\xfe")
    assert run(Http2Decoder(), [(S, update + trailers + head + named + behind)]) == [
        MessageEnd(1, S, [("grpc-status", "0")]),
        ResponseHead(3, "HTTP/2", None, "", Headers([(None, None)])),
        MessageEnd(3, S),
        MessageEnd(5, S, [(None, "v")]),
        BodyData(7, S, b"body"),
        MessageEnd(7, S, [(None, None)]),
    ]


def test_settings_behind_junk_are_not_the_connections_first() -> None:
    # So the peer's largest frame is not known; however the junk is cut.
    wire = b"junk" * 9 + frame(SETTINGS, 0, 0) * 4 + frame(0x77, 0, 0, bytes(20_000)) + answer(1)
    for size in (1 << 30, 1, 7):
        assert answered(1) in run(Http2Decoder(), [(S, wire)], size)
