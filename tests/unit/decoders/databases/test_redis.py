"""The protocol of Redis: commands, replies of all kinds, pushes, passwords, losses."""

import pytest

from sslsniff.decoders.databases.redis.redis_decoder import RedisDecoder
from tests.unit.decoders.databases.database_wires import Decoded, cuts, decoded, resp
from tests.unit.decoders.wires import C, S, Step, run

GET = resp(b"GET", b"user:1")
ADA = b"$3\r\nAda\r\n"
GOT = Decoded("GET", "GET user:1")

CASES: dict[str, tuple[list[Step], list[Decoded]]] = {
    "a command": ([(C, GET), (S, ADA)], [GOT]),
    "null": ([(C, GET), (S, b"$-1\r\n")], [GOT]),
    "null of RESP 3": ([(C, GET), (S, b"_\r\n")], [GOT]),
    "an error": ([(C, GET), (S, b"-WRONGTYPE no string\r\n")], [GOT._replace(code="WRONGTYPE")]),
    "a long error": ([(C, GET), (S, b"!9\r\nERR wrong\r\n")], [GOT._replace(code="ERR")]),
    "an array": (
        [(C, resp(b"LRANGE", b"a", b"0", b"-1")), (S, b"*3\r\n$1\r\na\r\n:2\r\n*1\r\n+c\r\n")],
        [Decoded("LRANGE", "LRANGE a 0 -1", None, 3)],
    ),
    "an empty array": (
        [(C, resp(b"KEYS", b"*")), (S, b"*0\r\n")],
        [Decoded("KEYS", "KEYS *", None, 0)],
    ),
    "a map": (
        [(C, resp(b"HGETALL", b"a")), (S, b"%2\r\n+a\r\n:1\r\n+b\r\n#t\r\n")],
        [Decoded("HGETALL", "HGETALL a", None, 2)],
    ),
    "attributes": (
        [(C, GET), (S, b"|1\r\n+ttl\r\n:3\r\n" + ADA), (C, GET), (S, ADA)],
        [GOT, GOT],
    ),
    "pipelined": ([(C, GET * 3), (S, ADA * 2), (S, ADA)], [GOT] * 3),
    "a transaction": (
        [
            (C, resp(b"MULTI") + resp(b"incr", b"a") + resp(b"EXEC")),
            (S, b"+OK\r\n+QUEUED\r\n*1\r\n:1\r\n"),
        ],
        [Decoded("MULTI", "MULTI"), Decoded("INCR", "INCR a"), Decoded("EXEC", "EXEC", None, 1)],
    ),
    "typed by hand": ([(C, b"get user:1\r\n"), (S, ADA)], [GOT]),
    "subscribed, RESP 2": (
        [
            (C, resp(b"SUBSCRIBE", b"a", b"b")),
            (
                S,
                b"*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\nb\r\n:2\r\n",
            ),
            (S, b"*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$2\r\nhi\r\n"),
        ],
        [Decoded("SUBSCRIBE", "SUBSCRIBE a b", None, 6), Decoded("PUSH", "message a hi")],
    ),
    "subscribed, RESP 3": (
        [
            (C, resp(b"SUBSCRIBE", b"a") + GET),
            (S, b">3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n"),
            (S, b">3\r\n$7\r\nmessage\r\n$1\r\na\r\n$2\r\nhi\r\n" + ADA),
        ],
        [Decoded("SUBSCRIBE", "SUBSCRIBE a"), GOT, Decoded("PUSH", "message a hi")],
    ),
    "no replies": (
        [
            (C, resp(b"CLIENT", b"REPLY", b"OFF") + GET + resp(b"CLIENT", b"REPLY", b"ON") + GET),
            (S, b"+OK\r\n" + ADA),
        ],
        [Decoded("CLIENT", "CLIENT REPLY OFF"), GOT, Decoded("CLIENT", "CLIENT REPLY ON"), GOT],
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("size", [1 << 30, 1, 7])
def test_commands(name: str, size: int) -> None:
    wire, shown = CASES[name]
    before: list[Step] = [(C, resp(b"PING")), (S, b"+PONG\r\n")]
    assert decoded([*before, *wire], size)[1:] == shown


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ([b"AUTH", b"secret"], "AUTH ?"),
        ([b"auth", b"app", b"secret"], "AUTH app ?"),
        ([b"HELLO", b"3", b"AUTH", b"app", b"secret"], "HELLO 3 AUTH app ?"),
        ([b"CONFIG", b"SET", b"requirepass", b"secret"], "CONFIG SET requirepass ?"),
        ([b"ACL", b"SETUSER", b"app", b"on", b">secret"], "ACL SETUSER app on >?"),
        (
            [b"MIGRATE", b"h", b"1", b"AUTH", b"secret"],
            "MIGRATE h 1 AUTH ?",
        ),
        (
            [b"MIGRATE", b"h", b"1", b"AUTH2", b"u", b"secret"],
            "MIGRATE h 1 AUTH2 u ?",
        ),
        ([b"SET", b"a", b"secret"], "SET a secret"),
    ],
)
def test_passwords_are_never_shown(words: list[bytes], shown: str) -> None:
    assert [each.text for each in decoded([(C, resp(*words))])] == [shown]


@pytest.mark.parametrize("lost", range(4))
def test_a_loss_ends_what_is_open(lost: int) -> None:
    steps: list[Step] = [(C, GET), (S, ADA), (C, GET), (S, ADA)]
    shown = decoded([(C, GET), (S, ADA), *[*cuts(steps)][lost], (C, GET), (S, ADA)])
    assert shown[-1] == GOT
    assert {each.ended for each in shown} <= {None, "bytes lost"}
    assert len(shown) == (3 if lost in {0, 2} else 4)


def test_joined_in_the_middle() -> None:
    shown = decoded([(S, b"Ada\r\n"), (C, b"er:1\r\n" + GET), (S, ADA)], from_start=False)
    assert shown == [GOT]


def test_a_large_value_is_cut() -> None:
    decoder = RedisDecoder()
    run(decoder, [(C, resp(b"SET", b"a", b"x" * 1_000_000))])
    [opened] = decoder.open
    assert len(opened.statement.text or "") < 10_000
    assert decoder.held_bytes < 20_000
    run(decoder, [(S, b"+OK\r\n"), (C, GET), (S, b"$1000000\r\n")])
    for _ in range(1000):
        decoder.feed(S, b"x" * 1000)
    assert decoder.held_bytes < 100_000
    assert decoder.open
    decoder.feed(S, b"\r\n")
    assert not decoder.open
