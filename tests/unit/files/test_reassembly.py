"""TCP segments in, bytes in order out."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sslsniff.files.tcp_connections.reassembly import (
    EARLY_BYTES,
    EARLY_BYTES_IN_ALL,
    EarlyBytes,
    Piece,
    Reassembler,
)


def reassembler(sequence: int | None = 0) -> Reassembler[str]:
    return Reassembler(EarlyBytes(), sequence)


def take(stream: Reassembler[str], sequence: int, data: bytes) -> list[tuple[int, bytes]]:
    pieces = stream.feed(sequence % 2**32, data, len(data), f"at {sequence}")
    return [(piece.missing, piece.data) for piece in pieces]


def test_in_order() -> None:
    stream = reassembler(100)
    assert stream.feed(100, b"ab", 2, "x") == [Piece(0, b"ab", "x")]
    assert stream.feed(102, b"cd", 2, "y") == [Piece(0, b"cd", "y")]
    assert stream.flush("end") == []


def test_begins_with_its_first_segment() -> None:
    stream = reassembler(None)
    assert take(stream, 4_000_000_000, b"ab") == [(0, b"ab")]
    assert take(stream, 3_999_999_000, b"old") == []


def test_out_of_order() -> None:
    stream = reassembler()
    assert take(stream, 4, b"ef") == []
    assert take(stream, 2, b"cd") == []
    assert stream.feed(0, b"ab", 2, "first") == [
        Piece(0, b"ab", "first"),
        Piece(0, b"cd", "at 2"),
        Piece(0, b"ef", "at 4"),
    ]


def test_repeated_and_overlapping() -> None:
    stream = reassembler()
    assert take(stream, 0, b"abcd") == [(0, b"abcd")]
    assert take(stream, 0, b"abcd") == []
    assert take(stream, 3, b"!") == []  # as a keep-alive
    assert take(stream, 2, b"cdef") == [(0, b"ef")]
    assert take(stream, 8, b"ij") == []
    assert take(stream, 8, b"ijkl") == []
    assert take(stream, 4, b"efgh") == [(0, b"gh"), (0, b"ij"), (0, b"kl")]


def test_missing_for_good() -> None:
    stream = reassembler()
    take(stream, 0, b"ab")
    assert take(stream, 5, b"fg") == []
    assert stream.flush("end") == [Piece(3, b"fg", "at 5")]
    assert take(stream, 7, b"hi") == [(0, b"hi")]


def test_missing_once_enough_waits() -> None:
    stream = reassembler()
    seen: list[tuple[int, bytes]] = []
    at = 10
    while not seen:
        seen = take(stream, at, bytes(1000))
        at += 1000
    assert seen[0] == (10, bytes(1000))
    assert sum(len(data) for _, data in seen) == at - 10
    assert EARLY_BYTES < at < EARLY_BYTES + 2000
    assert take(stream, 0, b"too late!!") == []


def test_all_together_are_bounded() -> None:
    early = EarlyBytes()
    early.bytes = 64 << 20
    stream: Reassembler[str] = Reassembler(early, 0)
    assert stream.feed(2, b"cd", 2, "x") == [Piece(2, b"cd", "x")]
    assert early.bytes == 64 << 20


def test_cut_segments() -> None:
    stream = reassembler()
    assert stream.feed(0, b"ab", 5, "x") == [Piece(0, b"ab", "x")]
    assert stream.feed(5, b"fg", 10, "y") == [Piece(3, b"fg", "y")]
    assert stream.feed(15, b"", 5, "z") == []
    assert stream.flush("end") == [Piece(13, b"", "end")]


def test_wraps() -> None:
    stream = reassembler(2**32 - 3)
    assert take(stream, 2**32 - 3, b"abcdef") == [(0, b"abcdef")]
    assert take(stream, 2**32 + 5, b"ij") == []
    assert take(stream, 3, b"gh") == [(0, b"gh"), (0, b"ij")]


@pytest.mark.tools
@given(st.data())
def test_any_order_gives_the_same_bytes(data: st.DataObject) -> None:
    whole = data.draw(st.binary(min_size=1, max_size=60))
    first = data.draw(st.sampled_from([0, 77, 2**32 - 20]))
    cuts = sorted(data.draw(st.sets(st.integers(0, len(whole)), max_size=8)) | {0, len(whole)})
    segments = list(pairwise(cuts))
    extra = data.draw(
        st.lists(st.tuples(st.integers(0, len(whole)), st.integers(0, 20)), max_size=5)
    )
    segments += [(start, min(start + size, len(whole))) for start, size in extra]
    stream = reassembler(first)
    seen = b""
    for start, end in data.draw(st.permutations(segments)):
        for missing, piece in take(stream, first + start, whole[start:end]):
            assert missing == 0
            seen += piece
    assert seen == whole
    assert stream.flush("end") == []
    assert stream._early.bytes == 0


@pytest.mark.tools
@given(st.lists(st.tuples(st.integers(0, 2**32 - 1), st.binary(max_size=30), st.integers(0, 9))))
def test_any_segments_account_for_every_byte(segments: list[tuple[int, bytes, int]]) -> None:
    stream = reassembler(0)
    passed = 0
    for sequence, data, cut in segments:
        for piece in stream.feed(sequence, data, len(data) + cut, "x"):
            passed += piece.missing + len(piece.data)
    passed += sum(piece.missing + len(piece.data) for piece in stream.flush("end"))
    assert stream._next == passed
    assert stream._early.bytes == 0


def test_what_was_acknowledged_is_given_up() -> None:
    stream = reassembler()
    take(stream, 0, b"ab")
    take(stream, 5, b"fg")
    assert [stream.lacks(n) for n in (0, 2, 5, 9, 2**32 - 5)] == [0, 0, 3, 7, 0]
    assert stream.count_as_lost(5, "ack") == [Piece(3, b"fg", "at 5")]
    assert stream.count_as_lost(9, "ack") == [Piece(2, b"", "ack")]
    assert take(stream, 9, b"jk") == [(0, b"jk")]


def test_acknowledgements_that_tell_of_no_loss() -> None:
    """A FIN that was not captured, another connection, or no segment so far."""
    stream = reassembler()
    take(stream, 0, b"ab")
    for sequence in (3, 2 + EARLY_BYTES_IN_ALL):
        assert stream.lacks(sequence) == 0
        assert stream.count_as_lost(sequence, "ack") == []
    assert reassembler(None).lacks(1000) == 0


def test_ends_with_its_fin() -> None:
    stream = reassembler()
    take(stream, 0, b"ab")
    stream.finish(5)
    assert not stream.is_finished
    assert stream.lacks(6) == 3  # the FIN counts in sequence numbers
    assert take(stream, 2, b"cde") == [(0, b"cde")]
    assert stream.is_finished
    assert stream.lacks(6) == 0


def test_fin_alone() -> None:
    stream = reassembler(None)
    stream.finish(7)
    assert stream.is_finished
