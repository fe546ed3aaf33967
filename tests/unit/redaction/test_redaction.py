import base64
import random
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import regex
from hpack import Encoder
from hpack.huffman import HuffmanEncoder
from hpack.huffman_constants import REQUEST_CODES, REQUEST_CODES_LENGTH

from sslsniff.cli.main import main
from sslsniff.core.model import Chunk, Connection, Direction
from sslsniff.decoders.messages import Side
from sslsniff.redaction.redactor import Redactor
from sslsniff.redaction.rules import Rules
from tests.unit.captures import READ, WRITE, Step, Taker, complaints, http1_steps, tshark_values
from tests.unit.exchanges import connection
from tests.unit.redaction.traffic import (
    BEARER,
    NUMBER,
    PATTERN,
    SECRETS,
    SEEN,
    TRAFFIC,
    continued,
    cut,
    http1,
    http2,
    http2_frames,
    overlapping,
    websocket,
)

_huffman = HuffmanEncoder(REQUEST_CODES, REQUEST_CODES_LENGTH)

SINKS = {
    "lines": [],
    "headers": ["-v"],
    "bodies": ["-vv"],
    "json": ["--json"],
    "chunks": ["--chunks"],
    "hexdump": ["--hexdump"],
    "frames": ["--frames"],
    "frames as json": ["--frames", "--json"],
    "pcapng": ["--pcap", "out.pcapng"],
    "pcap": ["--pcap", "out.pcap"],
    "plain": ["--pcap", "out.pcapng", "--pcap-layout", "plain"],
    "har": ["--har", "out.har"],
}


def forms(secret: bytes) -> list[bytes]:
    """Return what a secret looks like in outputs, at any place."""
    found = [secret, secret.hex().encode(), secret.hex(" ").encode()]
    for shift in range(3):  # base64 of what has it, but for its ends
        coded = base64.b64encode(b"\0" * shift + secret)
        found.append(coded[4 : len(coded) - 4])
    coded = _huffman.encode(secret)  # at the beginning of a string
    return [*found, coded[:-1]]


def dumped(shown: bytes) -> bytes:
    """Return the bytes that are in a hexdump, on lines of sixteen."""
    rows = re.findall(rb"^ *[0-9a-f]{8}  ((?:[0-9a-f]{2} {1,2}){1,16})", shown, re.MULTILINE)
    return bytes.fromhex(b"".join(rows).decode())


class Received:
    """A listener that joins what it receives."""

    def __init__(self) -> None:
        self.chunks: list[Chunk] = []

    def opened(self, connection: Connection, time_ns: int) -> None: ...
    def ended(self, connection: Connection, direction: Direction, time_ns: int) -> None: ...
    def handshake(self, handshake: object) -> None: ...
    def closed(self, connection: Connection, time_ns: int) -> None: ...
    def consumed(self, count: int, time_ns: int) -> None: ...
    def tick(self, now_ns: int) -> None: ...
    def consumer(self, connection: Connection, direction: Direction) -> None: ...

    def chunk(self, chunk: Chunk) -> None:
        self.chunks.append(chunk)

    def plaintext(self, direction: Direction) -> bytes:
        return b"".join(each.data for each in self.chunks if each.direction is direction)


def redact(
    steps: list[Step],
    *,
    role: Side | None = Side.CLIENT,
    alpn: str | None = None,
    is_joined: bool = False,
) -> tuple[Received, Rules]:
    received = Received()
    rules = Rules(defaults=True, patterns=[regex.compile(PATTERN.encode())])
    redactor = Redactor(received, rules)
    one = replace(connection(), role=role, alpn=alpn, from_start=not is_joined)
    redactor.opened(one, 0)
    for number, (direction, what) in enumerate(steps):
        if isinstance(what, int):
            redactor.chunk(Chunk(one, direction, number, 7, 0, b"", what))
        else:
            redactor.chunk(Chunk(one, direction, number, 7, 0, what))
    redactor.closed(one, 99)
    assert [each.time_ns for each in received.chunks] == [*range(len(steps))]
    return received, rules


def joined(steps: list[Step], direction: Direction) -> bytes:
    return b"".join(what for each, what in steps if each is direction and isinstance(what, bytes))


@pytest.mark.slow
@pytest.mark.parametrize("name", TRAFFIC)
@pytest.mark.parametrize("sink", SINKS)
def test_no_output_has_a_secret(
    sink: str,
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    monkeypatch.chdir(tmp_path)
    source = tmp_path / "source.pcapng"
    taker = Taker(source)
    taker.take(TRAFFIC[name](), alpn=None)
    taker.close()
    options = [*SINKS[sink], "--force"]

    def outputs(*redacting: str) -> bytes:
        assert main(["read", str(source), *options, *redacting]) == 0
        shown, errors = capfdbinary.readouterr()
        files = b"".join(each.read_bytes() for each in tmp_path.glob("out.*"))
        return shown + errors + files + dumped(shown)

    raw = outputs("--redact", "--redact-pattern", PATTERN)
    assert [each for each in SECRETS if any(form in raw for form in forms(each))] == []
    assert b"sslsniff: redacted: " in raw
    # The search would find them.
    if sink in ("chunks", "hexdump", "pcapng", "pcap", "plain"):
        raw = outputs()
        assert any(form in raw for each in SECRETS for form in forms(each))


@pytest.mark.parametrize("name", TRAFFIC)
def test_lengths_stay_and_no_secret_passes_in_any_pieces(name: str) -> None:
    steps = TRAFFIC[name]()
    whole, _ = redact(steps)
    for seed in range(30):
        received, _ = redact(cut(steps, random.Random(seed)))
        for direction in Direction:
            plaintext = received.plaintext(direction)
            assert len(plaintext) == len(joined(steps, direction))
            assert plaintext == whole.plaintext(direction), seed
            assert [each for each in SECRETS if each in plaintext] == []


def test_what_is_no_secret_stays() -> None:
    for steps in (http1(), http2(), websocket()):
        received, _ = redact(steps)
        for direction in Direction:
            before, after = joined(steps, direction), received.plaintext(direction)
            assert after.count(SEEN) == before.count(SEEN)
            assert before.count(SEEN) or direction is READ
    steps = http1_steps("plain")
    received, rules = redact(steps)
    assert all(received.plaintext(each) == joined(steps, each) for each in Direction)
    assert rules.blanked.unread_bytes == 0
    assert not any(each.redacted for each in received.chunks)


@pytest.mark.heavy
def test_wireshark_reads_a_redacted_http2_connection_to_its_end(tmp_path: Path) -> None:
    source, out = tmp_path / "source.pcapng", tmp_path / "out.pcapng"
    taker = Taker(source)
    taker.take(http2(20), alpn="h2")
    taker.close()
    assert main(["read", str(source), "--redact", "--pcap", str(out)]) == 0
    assert complaints(out) == []
    for name in ("x-seen", "authorization", ":path"):
        only = f'http2.header.name == "{name}"'
        assert len(tshark_values(out, "http2.streamid", only)) >= 20
    values = tshark_values(out, "http2.header.value")
    assert values.count(f"{SEEN.decode()} 19") == 1
    assert sum(value.startswith("/7?token=") for value in values) == 1
    assert not any(BEARER.decode() in value for value in values)
    blanked = [value for value in values if len(value) == len("Bearer ") + len(BEARER)]
    assert len(set(blanked)) == 1
    assert len(blanked) == 20


@pytest.mark.slow
@pytest.mark.parametrize("direction", [READ, WRITE])
@pytest.mark.parametrize("name", ["http1", "http2", "websocket"])
def test_behind_a_loss_nothing_passes_that_is_not_understood(
    name: str, direction: Direction
) -> None:
    steps = TRAFFIC[name]()
    data = joined(steps, direction)
    random_places = random.Random(7)
    for _ in range(60):
        at = random_places.randrange(len(data))
        size = random_places.choice((1, 5, 40, 400))
        other = WRITE if direction is READ else READ
        lossy: list[Step] = [
            (other, joined(steps, other)),
            (direction, data[:at]),
            (direction, size),
            (direction, data[at + size :]),
        ]
        received, _ = redact(lossy)
        plaintext = received.plaintext(direction)
        for secret in SECRETS:
            assert secret[-6:] not in plaintext, (at, size)


@pytest.mark.heavy
@pytest.mark.parametrize("traffic", [http1, http2, continued])
def test_a_capture_that_joins_in_the_middle_shows_no_secret(
    traffic: Callable[[], list[Step]],
) -> None:
    steps = traffic()
    sent = joined(steps, WRITE)
    for at in range(1, len(sent), 3):
        received, _ = redact([(WRITE, sent[at:]), (READ, joined(steps, READ))], is_joined=True)
        for each in Direction:
            plaintext = received.plaintext(each)
            assert [secret for secret in SECRETS if secret[-6:] in plaintext] == [], at


@pytest.mark.parametrize("method", [b"GET", b"PROPFIND"])
def test_a_capture_that_joins_between_messages_shows_what_is_no_secret(method: bytes) -> None:
    steps: list[Step] = [(WRITE, method + b" / HTTP/1.1\r\nHost: h\r\n\r\n")]
    received, _ = redact(steps, is_joined=True)
    assert received.plaintext(WRITE) == joined(steps, WRITE)


def test_a_huge_header_block_is_blanked_to_its_end() -> None:
    value = NUMBER * 20_000
    block = Encoder().encode([("x", value.decode())], huffman=False)
    received, rules = redact([(WRITE, http2_frames(block))])
    assert NUMBER[-6:] not in received.plaintext(WRITE)
    assert rules.blanked.unread_bytes > 0


def test_the_users_pattern_alone_leaves_the_rest(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "source.pcapng"
    taker = Taker(source)
    taker.take(http1())
    taker.close()
    assert main(["read", str(source), "--redact-pattern", PATTERN, "-vv"]) == 0
    shown = capfd.readouterr().out
    assert BEARER.decode() in shown
    assert NUMBER.decode() not in shown
    assert "*" * len(NUMBER) in shown


@pytest.mark.parametrize("pattern", ["(", "x*"])
def test_a_pattern_that_cannot_be_used_is_refused(
    pattern: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["read", "x.pcapng", "--redact-pattern", pattern])
    assert ended.value.code == 2
    assert pattern in capfd.readouterr().err


def test_a_secret_without_end_is_blanked_and_all_behind_it() -> None:
    body = b'{"password": "' + b"s3cr3t" * 50_000 + b'"}'
    steps: list[Step] = [(WRITE, b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body))]
    steps += [(WRITE, body[at : at + 9999]) for at in range(0, len(body), 9999)]
    received, rules = redact(steps)
    assert b"s3cr3t" not in received.plaintext(WRITE)
    assert len(received.plaintext(WRITE)) > len(body)
    assert rules.blanked.unread_bytes > 0


def test_a_response_does_not_overtake_its_request() -> None:
    """A secret that goes on in another stream lets both wait; ``redact`` checks the order."""
    received, _ = redact(overlapping(), alpn="h2")
    assert BEARER not in received.plaintext(WRITE)
