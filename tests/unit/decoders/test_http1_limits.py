"""What HTTP/1 keeps of messages without end."""

import pytest

from sslsniff.decoders.http1.http1_decoder import Http1Decoder
from sslsniff.decoders.messages import (
    Aborted,
    BodyData,
    Message,
    MessageEnd,
    RequestHead,
    ResponseHead,
    Undecoded,
)
from tests.unit.decoders.http1_wires import GET, OK, get, ok, response
from tests.unit.decoders.wires import C, S, run

MOST_WAITING = 4096


@pytest.mark.parametrize("size", [1 << 30, 5000])
def test_a_head_over_the_limit_is_skipped(size: int) -> None:
    big = b"GET /big HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 1_200_000 + b"\r\n\r\n"
    messages = run(Http1Decoder(), [(C, big + GET)], size)
    assert isinstance(messages[0], Undecoded)
    assert messages[0].size == len(big)
    assert len(messages[0].data) == 4096
    assert messages[1:] == get(1)


def test_a_head_of_too_many_lines_is_skipped() -> None:
    many = b"GET /many HTTP/1.1\r\nHost: a\r\n" + b"a:\r\n" * 8190 + b"\r\n"
    (head, _) = run(Http1Decoder(), [(C, many)])
    assert isinstance(head, RequestHead)
    assert len(head.headers) == 8191
    more = many[:-2] + b"a:\r\n\r\n"
    lost, *rest = run(Http1Decoder(), [(C, more + GET)])
    assert lost == Undecoded(C, more[:4096], len(more), "head over 1048576 bytes or 8192 lines")
    assert rest == get(1)


def test_a_long_body_is_not_kept() -> None:
    decoder = Http1Decoder()
    run(decoder, [(S, b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n")])
    data = bytes(100_000)
    assert decoder.feed(S, data) == [BodyData(1, S, data)]


def test_junk_without_end_is_not_kept() -> None:
    decoder = Http1Decoder()
    for _ in range(50):
        assert decoder.feed(S, b"x" * 100_000) == []
    (lost,) = decoder.end(S)
    assert isinstance(lost, Undecoded)
    assert (lost.size, len(lost.data)) == (5_000_000, 4096)


def given_up(stream: int) -> Aborted:
    return Aborted(stream, S, "over 4096 exchanges open")


def test_requests_that_wait_beyond_the_limit_are_told() -> None:
    messages = run(Http1Decoder(), [(C, GET * (MOST_WAITING + 2))])
    told = [message for message in messages if isinstance(message, Aborted)]
    assert told == [given_up(1), given_up(2)]


def test_responses_to_requests_beyond_the_limit_are_not_those_to_others() -> None:
    count = MOST_WAITING + 2
    decoder = Http1Decoder()
    run(decoder, [(C, GET * count)])
    early = b"HTTP/1.1 103 Early Hints\r\n\r\n"
    messages = run(decoder, [(S, early + OK * count)])
    # 1 and 2 were given up: their responses stand alone.
    lone = [response(count + 1, 103, "Early Hints"), *ok(count + 1), *ok(count + 2)]
    answered: list[Message] = [each for stream in range(3, count + 1) for each in ok(stream)]
    assert messages == lone + answered


def test_a_lost_response_among_more_than_the_limit_leaves_no_pair() -> None:
    decoder = Http1Decoder()
    run(decoder, [(C, GET * (MOST_WAITING + 1))])
    messages = run(decoder, [(S, 40), (S, OK), (C, GET), (S, OK)])
    answered = [each.stream for each in messages if isinstance(each, ResponseHead)]
    assert sum(isinstance(each, Aborted) for each in messages) == MOST_WAITING
    assert answered == [MOST_WAITING + 2, MOST_WAITING + 3]
    assert messages[-1] == MessageEnd(MOST_WAITING + 3, S)
