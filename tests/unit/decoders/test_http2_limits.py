"""HTTP/2 made to take much, and what of it is kept."""

import pytest
from hpack import Encoder

from sslsniff.decoders.http2.frames import (
    CONTINUATION,
    HEADERS,
    PREFACE,
    RST_STREAM,
    SETTINGS,
)
from sslsniff.decoders.http2.http2_decoder import Http2Decoder
from sslsniff.decoders.messages import (
    Aborted,
    MessageEnd,
    RequestHead,
    ResponseHead,
    Undecoded,
)
from tests.unit.decoders.http2_wires import ASK, START, ask, asked
from tests.unit.decoders.wires import END, C, S, Step, frame, run


def test_a_larger_table_is_allowed_by_settings() -> None:
    encoder = Encoder()
    encoder.header_table_size = 65536
    wire: list[Step] = [
        (C, PREFACE + frame(SETTINGS, 0, 0)),
        (S, frame(SETTINGS, 0, 0, b"\0\x01\0\x01\0\0")),
    ]
    fields = [(f"x-{n}", "v" * 100) for n in range(100)]
    for stream in (1, 3):
        wire.append((C, frame(HEADERS, 5, stream, bytes(encoder.encode(ASK + fields)))))
    heads = [m for m in run(Http2Decoder(), wire) if isinstance(m, RequestHead)]
    assert [head.headers for head in heads] == [fields, fields]


def test_a_header_bomb_is_cut() -> None:
    big = bytes(Encoder().encode([*ASK, ("x", "a" * 3000)]))
    bomb = big + b"\xbe" * 200_000
    pieces = [bomb[at : at + 16000] for at in range(0, len(bomb), 16000)]
    wire = frame(HEADERS, 1, 1, pieces[0])
    wire += b"".join(frame(CONTINUATION, 0, 1, piece) for piece in pieces[1:])
    wire += frame(CONTINUATION, 4, 1)
    head = run(Http2Decoder(), [*START, (C, wire)])[0]
    assert isinstance(head, RequestHead)
    assert len(head.headers) < 400


def test_the_table_is_right_behind_what_was_left_out() -> None:
    """Fields that are not told are added to the table, and evict others, all the same."""
    encoder = Encoder()
    long, short = ("x-long", "a" * 1000), ("x-short", "b" * 50)
    first = bytes(encoder.encode([*ASK, long, short]))
    wire = frame(HEADERS, 5, 1, first)
    # Two indices name long, each some hundred times, then new fields follow that are left out.
    added = [(f"x-{n}", f"value {n}") for n in range(20)]
    bomb = bytes(encoder.encode([*ASK, long])) + b"\xbf" * 5000 + bytes(encoder.encode(added))
    wire += frame(HEADERS, 5, 3, bomb)
    later = [*ASK, *added[::3], short, ("x-new", "c")]
    wire += frame(HEADERS, 5, 5, bytes(encoder.encode(later)))
    cut, last = [
        each for each in run(Http2Decoder(), [*START, (C, wire)]) if isinstance(each, RequestHead)
    ][1:]
    assert cut.headers.omitted is not None
    assert cut.headers.omitted.fields + len(cut.headers) == 1 + 5000 + len(added)
    assert last.headers == later[len(ASK) :]
    assert last.headers.omitted is None


@pytest.mark.slow
@pytest.mark.parametrize("table", [4096, 65536])
def test_usual_header_lists_are_never_cut(table: int) -> None:
    """A connection that is busy for long, all of whose fields are entries of the table."""
    encoder = Encoder()
    encoder.header_table_size = table
    allow = b"\0\x01" + table.to_bytes(4, "big")
    wire: list[Step] = [
        (C, PREFACE + frame(SETTINGS, 0, 0, allow)),
        (S, frame(SETTINGS, 0, 0, allow)),
    ]
    fields = [*ASK, ("cookie", "c" * 2900), ("user-agent", "u" * 200), ("x-a", "a"), ("x-b", "b")]
    for stream in range(1, 20_001, 2):
        wire.append((C, frame(HEADERS, 5, stream, bytes(encoder.encode(fields)))))
    heads = [each for each in run(Http2Decoder(), wire) if isinstance(each, RequestHead)]
    assert len(heads) == 10_000
    assert all(each.headers == fields[len(ASK) :] for each in heads)


@pytest.mark.parametrize("end", [frame(CONTINUATION, 4, 1, b"end"), b""])
def test_an_endless_block_is_given_up(end: bytes) -> None:
    decoder = Http2Decoder()
    wire = frame(HEADERS, 1, 1, bytes(16000)) + frame(CONTINUATION, 0, 1, bytes(16000)) * 20 + end
    messages = run(decoder, [*START, (C, wire + ask(3))])
    size = 21 * 16000 + (3 if end else 0)
    assert messages == [
        Undecoded(C, bytes(4096), size, "header block over 262144 bytes"),
        MessageEnd(1, C),
        *asked(3),
    ]


def test_a_block_that_its_end_cuts_short_is_told() -> None:
    wire = frame(HEADERS, 1, 1, b"\x82")
    assert run(Http2Decoder(), [*START, (C, wire), (C, END)]) == [
        Undecoded(C, b"\x82", 1, "connection closed"),
        MessageEnd(1, C),
    ]


def test_streams_are_bounded() -> None:
    decoder = Http2Decoder()
    run(decoder, START)
    for stream in range(1, 20001, 2):
        decoder.feed(C, ask(stream))
    assert len(decoder._streams.open) == 4096


def test_a_stream_is_not_forgotten_for_many_that_were_reset() -> None:
    """As a watch that stays open for days, beside calls that time out."""
    decoder = Http2Decoder()
    run(decoder, [(C, PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS, 4, 1, b"\x82"))])
    cancel = b"\0\0\0\x08"
    for stream in range(3, 20_001, 2):
        call = frame(HEADERS, 5, stream, b"\x82")
        run(decoder, [(C, call + frame(RST_STREAM, 0, stream, cancel))])
    assert run(decoder, [(S, frame(RST_STREAM, 0, 1, cancel))]) == [Aborted(1, S, "reset: CANCEL")]
    late = [ResponseHead(19_999, "HTTP/2", 200), Aborted(19_999, S, "after the client's reset")]
    assert run(decoder, [(S, frame(HEADERS, 5, 19_999, b"\x88"))]) == late
    later = [Undecoded(S, b"\x88", 1, "after the client's reset")]
    assert run(decoder, [(S, frame(HEADERS, 5, 19_999, b"\x88"))]) == later
