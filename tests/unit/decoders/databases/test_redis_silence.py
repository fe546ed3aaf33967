"""Commands of Redis that get no reply, as CLIENT REPLY says or as replication does."""

import pytest

from sslsniff.decoders.databases.redis.redis_decoder import RedisDecoder
from tests.unit.decoders.databases.database_wires import Decoded, decoded, resp, statements
from tests.unit.decoders.databases.redis_wires import ADA, GET, GOT, QUEUED, asks, plain, subscribed
from tests.unit.decoders.wires import END, C, S, Step, run

SNAPSHOT = b"REDIS0010*3\r\n$3\r\nSET\r\n" + bytes(range(256)) * 8
MARK = b"03b40e816dc8fc9fe17cd1f83c98c8224fdf2851"
STREAM = b"*2\r\n$6\r\nSELECT\r\n$1\r\n2\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n"
STREAMED = [Decoded("PUSH", "SELECT 2"), Decoded("PUSH", "SET a 1")]

CASES: dict[str, tuple[list[Step], list[Decoded]]] = {
    "no replies": (
        [
            (C, resp(b"CLIENT", b"REPLY", b"OFF") + GET + resp(b"CLIENT", b"REPLY", b"ON") + GET),
            (S, b"+OK\r\n" + ADA),
        ],
        [Decoded("CLIENT", "CLIENT REPLY OFF"), GOT, Decoded("CLIENT", "CLIENT REPLY ON"), GOT],
    ),
    # What follows was recorded of Redis 7.0.15.
    "one reply skipped": (
        [
            asks("CLIENT REPLY SKIP;SET k 1;INCR nx;LPUSH k x;GET user:1"),
            (S, b":1\r\n-WRONGTYPE no list\r\n" + ADA),
        ],
        [
            *plain("CLIENT REPLY SKIP;SET k 1;INCR nx"),
            Decoded("LPUSH", "LPUSH k x", code="WRONGTYPE"),
            GOT,
        ],
    ),
    "skipped one by one": (
        [asks("CLIENT REPLY SKIP;SET k 1"), asks("CLIENT REPLY SKIP;SET k 2"), (C, GET), (S, ADA)],
        [*plain("CLIENT REPLY SKIP;SET k 1;CLIENT REPLY SKIP;SET k 2"), GOT],
    ),
    "skipped twice is skipped once more": (
        [asks("CLIENT REPLY SKIP;CLIENT REPLY SKIP;SET k 1;GET user:1"), (S, ADA)],
        [*plain("CLIENT REPLY SKIP;CLIENT REPLY SKIP;SET k 1"), GOT],
    ),
    "ON is answered after SKIP": (
        [asks("CLIENT REPLY SKIP;CLIENT REPLY ON;GET user:1"), (S, b"+OK\r\n" + ADA)],
        [*plain("CLIENT REPLY SKIP;CLIENT REPLY ON"), GOT],
    ),
    "an error is skipped, too": (
        [asks("CLIENT REPLY SKIP;CLIENT REPLY BAD;GET user:1"), (S, ADA)],
        [*plain("CLIENT REPLY SKIP;CLIENT REPLY BAD"), GOT],
    ),
    "no such mode": (
        [asks("CLIENT REPLY BAD;GET user:1"), (S, b"-ERR syntax error\r\n" + ADA)],
        [Decoded("CLIENT", "CLIENT REPLY BAD", code="ERR"), GOT],
    ),
    "RESET ends silence": (
        [asks("CLIENT REPLY OFF;SET k 1;RESET;GET user:1"), (S, b"+RESET\r\n" + ADA)],
        [*plain("CLIENT REPLY OFF;SET k 1;RESET"), GOT],
    ),
    "a refused SKIP": (
        [
            asks("CLIENT REPLY SKIP;SET k 1;AUTH pw;GET user:1"),
            (S, b"-NOAUTH Authentication required.\r\n" * 2 + b"+OK\r\n" + ADA),
        ],
        [
            Decoded("CLIENT", "CLIENT REPLY SKIP", code="NOAUTH"),
            Decoded("SET", "SET k 1", code="NOAUTH"),
            *plain("AUTH ?"),
            GOT,
        ],
    ),
    "a refused OFF": (
        [
            asks("CLIENT REPLY OFF;GET user:1"),
            (
                S,
                b"-NOPERM this user has no permissions to run the 'client|reply' command\r\n" + ADA,
            ),
            (C, GET),
            (S, ADA),
        ],
        [Decoded("CLIENT", "CLIENT REPLY OFF", code="NOPERM"), GOT, GOT],
    ),
    "the third has no permission": (
        [
            asks("CLIENT REPLY SKIP;SET k 1;GET user:1;GET user:1"),
            (S, b"-NOPERM this user has no permissions to run the 'get' command\r\n" + ADA),
        ],
        [*plain("CLIENT REPLY SKIP;SET k 1"), GOT._replace(code="NOPERM"), GOT],
    ),
    "SKIP in a transaction": (
        [
            asks("MULTI;CLIENT REPLY SKIP;GET user:1;EXEC"),
            (S, b"+OK\r\n" + QUEUED * 2 + b"*2\r\n" + ADA),
            asks("SET k 1;GET user:1"),
            (S, ADA),
        ],
        [
            *plain("MULTI;CLIENT REPLY SKIP"),
            GOT,
            Decoded("EXEC", "EXEC", None, 2),
            *plain("SET k 1"),
            GOT,
        ],
    ),
    "a transaction whose MULTI is skipped": (
        [
            asks("CLIENT REPLY SKIP;MULTI;GET user:1;EXEC;GET user:1"),
            (S, QUEUED + b"*1\r\n" + ADA * 2),
        ],
        [*plain("CLIENT REPLY SKIP;MULTI"), GOT, Decoded("EXEC", "EXEC", None, 1), GOT],
    ),
    "subscribed in silence": (
        [
            asks("CLIENT REPLY OFF;SUBSCRIBE a;CLIENT REPLY ON;GET user:1"),
            (S, subscribed("subscribe", "a", count=1, kind=b">") + b"+OK\r\n" + ADA),
        ],
        [*plain("CLIENT REPLY OFF;SUBSCRIBE a;CLIENT REPLY ON"), GOT],
    ),
    "a replica": (
        [
            asks("REPLCONF capa eof capa psync2"),
            (S, b"+OK\r\n"),
            asks("PSYNC ? -1"),
            (S, b"\n\n+FULLRESYNC 7e56b9f 0\r\n\n$%d\r\n" % len(SNAPSHOT) + SNAPSHOT),
            asks("REPLCONF ACK 0"),
            (S, STREAM),
            asks("REPLCONF ACK 14"),
            (S, STREAM),
        ],
        [
            *plain("REPLCONF capa eof capa psync2;PSYNC ? -1;REPLCONF ACK 0"),
            *STREAMED,
            *plain("REPLCONF ACK 14"),
            *STREAMED,
        ],
    ),
    "a replica, without a disk": (
        [
            asks("PSYNC ? -1"),
            (S, b"+FULLRESYNC 7e56b9f 0\r\n$EOF:" + MARK + b"\r\n" + SNAPSHOT + MARK + STREAM),
            asks("REPLCONF ACK 0"),
            (S, STREAM),
        ],
        [*plain("PSYNC ? -1"), *STREAMED, *plain("REPLCONF ACK 0"), *STREAMED],
    ),
    "a replica that was there before": (
        [asks("PSYNC 7e56b9f 1"), (S, b"+CONTINUE\r\n" + STREAM), asks("REPLCONF ACK 0")],
        [*plain("PSYNC 7e56b9f 1"), *STREAMED, *plain("REPLCONF ACK 0")],
    ),
    "an old replica": (
        [asks("SYNC"), (S, b"\n$%d\r\n" % len(SNAPSHOT) + SNAPSHOT + STREAM)],
        [*plain("SYNC"), *STREAMED],
    ),
    "a refused replica": (
        [asks("PSYNC ? -1;SYNC;GET user:1"), (S, b"-NOMASTERLINK\r\n-NOAUTH no\r\n" + ADA)],
        [
            Decoded("PSYNC", "PSYNC ? -1", code="NOMASTERLINK"),
            Decoded("SYNC", "SYNC", code="NOAUTH"),
            GOT,
        ],
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("size", [1 << 30, 1, 7])
def test_commands(name: str, size: int) -> None:
    wire, shown = CASES[name]
    before: list[Step] = [(C, resp(b"PING")), (S, b"+PONG\r\n")]
    assert decoded([*before, *wire], size)[1:] == shown


def test_commands_without_replies_are_not_stored() -> None:
    decoder = RedisDecoder()
    run(decoder, [asks("PING"), (S, b"+PONG\r\n"), asks("CLIENT REPLY OFF")])
    for _ in range(100):
        run(decoder, [asks(";".join(["SET a 1"] * 100))])
    assert not decoder.open
    shown = statements(run(decoder, [asks("CLIENT REPLY ON"), (C, GET), (S, b"+OK\r\n" + ADA)]))
    assert shown == [*plain("CLIENT REPLY ON"), GOT]


def test_what_gets_no_reply_ends_well() -> None:
    shown = decoded([(C, GET), (S, ADA), asks("CLIENT REPLY OFF;SET a 1"), (S, END)])
    assert shown == [GOT, *plain("CLIENT REPLY OFF;SET a 1")]


def test_a_replica_joined_in_the_middle() -> None:
    wire = [asks("REPLCONF ACK 0"), (S, STREAM), asks("REPLCONF ACK 14"), (S, STREAM)]
    shown = decoded(wire, from_start=False)
    assert shown == [*plain("REPLCONF ACK 0"), *STREAMED, *plain("REPLCONF ACK 14"), *STREAMED]
