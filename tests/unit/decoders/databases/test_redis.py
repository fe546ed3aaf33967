"""The protocol of Redis: commands, replies of all kinds, pushes, passwords, losses."""

import pytest

from sslsniff.decoders.databases.redis.redis_decoder import RedisDecoder
from sslsniff.decoders.detect import Detector
from sslsniff.decoders.messages import StatementStart
from tests.unit.decoders.databases.database_wires import Decoded, cuts, decoded, resp
from tests.unit.decoders.databases.redis_wires import ADA, GET, GOT, QUEUED, asks, plain, subscribed
from tests.unit.decoders.wires import C, S, Step, run

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
    "a discarded transaction": (
        [
            asks("MULTI;SET k;GET user:1;EXEC;GET user:1"),
            (S, b"+OK\r\n-ERR wrong\r\n" + QUEUED + b"-EXECABORT discarded\r\n" + ADA),
        ],
        [
            *plain("MULTI"),
            Decoded("SET", "SET k", code="ERR"),
            GOT,
            Decoded("EXEC", "EXEC", code="EXECABORT"),
            GOT,
        ],
    ),
    "a transaction that subscribes": (
        [
            asks("MULTI;SUBSCRIBE a b;EXEC;GET user:1"),
            (S, b"+OK\r\n" + QUEUED + b"*1\r\n"),
            (S, subscribed("subscribe", "a", count=1) + subscribed("subscribe", "b", count=2)),
            (S, b"-ERR only SUBSCRIBE\r\n"),
        ],
        [
            *plain("MULTI;SUBSCRIBE a b"),
            Decoded("EXEC", "EXEC", None, 1),
            GOT._replace(code="ERR"),
        ],
    ),
    "a refused subscription": (
        [asks("SUBSCRIBE a b;GET user:1"), (S, b"-NOAUTH required\r\n" + ADA)],
        [Decoded("SUBSCRIBE", "SUBSCRIBE a b", code="NOAUTH"), GOT],
    ),
    "all subscriptions end": (
        [
            asks("SUBSCRIBE a b;PSUBSCRIBE x*;UNSUBSCRIBE;PUNSUBSCRIBE;GET user:1"),
            (S, subscribed("subscribe", "a", count=1) + subscribed("subscribe", "b", count=2)),
            (S, subscribed("psubscribe", "x*", count=3)),
            (S, subscribed("unsubscribe", "a", count=2) + subscribed("unsubscribe", "b", count=1)),
            (S, subscribed("punsubscribe", "x*", count=0) + ADA),
        ],
        [
            Decoded("SUBSCRIBE", "SUBSCRIBE a b", None, 6),
            Decoded("PSUBSCRIBE", "PSUBSCRIBE x*", None, 3),
            Decoded("UNSUBSCRIBE", "UNSUBSCRIBE", None, 6),
            Decoded("PUNSUBSCRIBE", "PUNSUBSCRIBE", None, 3),
            GOT,
        ],
    ),
    "a message before the answer": (
        [
            asks("SUBSCRIBE a;PING;UNSUBSCRIBE a;GET user:1"),
            (S, subscribed("subscribe", "a", count=1)),
            (S, b"*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$2\r\nhi\r\n"),
            (S, b"*2\r\n$4\r\npong\r\n$0\r\n\r\n" + subscribed("unsubscribe", "a", count=0) + ADA),
        ],
        [
            Decoded("SUBSCRIBE", "SUBSCRIBE a", None, 3),
            Decoded("PING", "PING", None, 2),
            Decoded("UNSUBSCRIBE", "UNSUBSCRIBE a", None, 3),
            GOT,
            Decoded("PUSH", "message a hi"),
        ],
    ),
    "monitored": (
        [
            asks("MONITOR"),
            (S, b"+OK\r\n"),
            asks("PING"),
            (S, b'+17.5 [0 127.0.0.1:5] "PING"\r\n+PONG\r\n+17.6 [0 127.0.0.1:6] "GET" "a"\r\n'),
            asks("RESET;GET user:1"),
            (S, b"+RESET\r\n" + ADA),
        ],
        [
            *plain("MONITOR;PING"),
            Decoded("PUSH", '17.5 [0 127.0.0.1:5] "PING"'),
            Decoded("PUSH", '17.6 [0 127.0.0.1:6] "GET" "a"'),
            *plain("RESET"),
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


def session(*wire: Step, size: int = 1 << 30) -> list[tuple[str | None, str | None, str | None]]:
    """Return the commands, each with the user and the database of its session."""
    messages = run(Detector(from_start=True), wire, size)
    begun = [each.statement for each in messages if isinstance(each, StatementStart)]
    return [(each.text, each.user, each.database) for each in begun]


def test_the_session_changes_when_the_server_agrees() -> None:
    wire = asks("PING;SELECT 99;GET a;SELECT 2;GET a;AUTH bob wrong;GET a;AUTH eve pw;GET a")
    no, yes = b"-ERR no\r\n", b"+OK\r\n"
    answers = b"+PONG\r\n" + no + ADA + yes + ADA + no + ADA + yes + ADA
    assert session(wire, (S, answers))[1:] == [
        ("SELECT 99", None, None),
        ("GET a", None, None),
        ("SELECT 2", None, "2"),
        ("GET a", None, "2"),
        ("AUTH bob ?", None, "2"),
        ("GET a", None, "2"),
        ("AUTH eve ?", "eve", "2"),
        ("GET a", "eve", "2"),
    ]


@pytest.mark.parametrize(
    ("command", "user"),
    [
        ("AUTH pw", "default"),
        ("AUTH eve pw", "eve"),
        ("HELLO 3", "bob"),
        ("HELLO 3 SETNAME AUTH", "bob"),
        ("HELLO 3 SETNAME AUTH AUTH eve pw", "eve"),
        ("hello 3 auth AUTH pw setname AUTH", "AUTH"),
        ("HELLO 2 AUTH default pw AUTH eve pw", "eve"),
        ("RESET", None),
    ],
)
def test_who_is_logged_in(command: str, user: str | None) -> None:
    """Redis 7.0 says the same in ACL WHOAMI."""
    for size in (1 << 30, 1):
        asked = asks(f"HELLO 3 AUTH bob pw;{command};GET a;GET b")
        wire = [asked, (S, b"+OK\r\n" * 2 + ADA * 2)]
        assert [user for _, user, _ in session(*wire, size=size)][2:] == [user, user]


@pytest.mark.parametrize(
    ("executed", "database"),
    [
        (b"*2\r\n-WRONGTYPE no list\r\n+OK\r\n", "3"),
        (b"*2\r\n:1\r\n-ERR out of range\r\n", None),
        (b"*-1\r\n", None),
        (b"-EXECABORT no\r\n", None),
    ],
)
def test_a_transaction_changes_the_session(executed: bytes, database: str | None) -> None:
    answers = b"+OK\r\n" + QUEUED * 2 + executed + ADA
    wire = asks("MULTI;LPUSH k 1;SELECT 3;EXEC;GET a")
    assert session(wire, (S, answers))[-1] == ("GET a", None, database)


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


@pytest.mark.parametrize(
    ("command", "is_cut"),
    [
        (GET, False),
        (b"PING\r\n", False),
        (resp(b"AUTH", b"a long password"), False),
        (resp(b"SET", "\u00e9".encode(), b"\xff\xfe"), False),
        (resp(b"SET", b"a", b"x" * 4096), False),
        (resp(b"SET", b"a", b"x" * 4097), True),
        (resp(b"SET", b"a", b"\xff" * 2048), True),
        (resp(b"SET", b"a", b"x" * 100_000), True),
        (resp(b"DEL", *[b""] * 999), False),
        (resp(b"DEL", *[b""] * 1000), True),
        (resp(b"DEL", *[b"x" * 4000] * 20), True),
    ],
)
def test_a_cut_text_says_so(command: bytes, is_cut: bool) -> None:
    for size in (1 << 30, 1):
        decoder = RedisDecoder()
        run(decoder, [(C, GET)])
        run(decoder, [(C, command)], size)
        statement = decoder.open[-1].statement
        assert statement.text is not None
        assert (statement.size > len(statement.text.encode())) == is_cut


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
