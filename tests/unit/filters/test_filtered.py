"""A filter before sinks: what of a connection is shown, and when."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sslsniff.cli.main import main
from sslsniff.core.losses import LossCause
from sslsniff.core.model import Chunk, Connection, Direction, Exchange
from sslsniff.core.sink import Sink, Summary
from sslsniff.decoders.messages import Frame, Side, Undecoded
from sslsniff.filters.around import AroundSink
from sslsniff.filters.filtered import FilteredSink
from sslsniff.filters.filters import parse
from sslsniff.filters.waiting_sink import WaitingSink
from tests.unit.captures import READ, WRITE, Taker, replay
from tests.unit.exchanges import START_NS, connection, exchange, request, response

SSLSNIFF = Path(sys.executable).with_name("sslsniff")
PCAPS = Path(__file__).parent.parent.parent.parent / "pcaps"


class Recorder(Sink):
    """Keeps what it is told, in order; only plaintext by its bytes."""

    def __init__(self, *, wants_plaintext: bool = True) -> None:
        self.wants_plaintext = wants_plaintext
        self.told: list[object] = []
        self.summaries: list[Summary] = []

    def opened(self, connection: Connection, time_ns: int) -> None:
        self.told.append(("opened", connection.id, time_ns))

    def chunk(self, chunk: Chunk) -> None:
        gap = (chunk.missing, chunk.cause) if chunk.missing else None
        self.told.append((chunk.direction, chunk.offset, gap or chunk.data))

    def exchange(self, exchange: Exchange) -> None:
        assert exchange.request is not None
        self.told.append(exchange.request.target)

    def frame(self, connection: Connection, frame: Frame, time_ns: int, tid: int) -> None:
        self.told.append(frame.type)

    def undecoded(self, connection: Connection, message: Undecoded, time_ns: int) -> None:
        self.told.append(message.reason)

    def ended(self, connection: Connection, direction: Direction, time_ns: int) -> None:
        self.told.append(("ended", direction, time_ns))

    def closed(self, connection: Connection, time_ns: int) -> None:
        self.told.append(("closed", connection.id, time_ns))

    def summary(self, summary: Summary) -> None:
        self.summaries.append(summary)


def chunk(on: Connection, offset: int, data: bytes, direction: Direction = READ) -> Chunk:
    return Chunk(on, direction, START_NS + offset, 7, offset, data)


def of(on: Connection, target: str) -> Exchange:
    return exchange(request(target=target), response(), on)


def test_a_connection_shows_once_an_exchange_of_it_matches() -> None:
    recorder = Recorder()
    sink = FilteredSink(parse("~u /yes"), [recorder])
    on = connection()
    sink.opened(on, 1)
    sink.chunk(chunk(on, 0, b"abc"))
    sink.frame(on, Frame(1, Side.CLIENT, "HEADERS", [], 3), 2, 7)
    sink.undecoded(on, Undecoded(Side.CLIENT, b"x", 1, "odd"), 2)
    sink.ended(on, WRITE, 2)
    sink.exchange(of(on, "/no"))
    assert recorder.told == []
    sink.exchange(of(on, "/yes"))
    before = [
        ("opened", on.id, 1),
        (READ, 0, b"abc"),
        "HEADERS",
        "odd",
        ("ended", WRITE, 2),
        "/yes",
    ]
    assert recorder.told == before
    sink.chunk(chunk(on, 3, b"def"))
    sink.exchange(of(on, "/no"))
    sink.closed(on, 9)
    assert recorder.told == [*before, (READ, 3, b"def"), ("closed", on.id, 9)]
    sink.summary(Summary(exchanges=3))
    [summary] = recorder.summaries
    assert (summary.exchanges, summary.shown, summary.losses) == (3, 1, [])


def test_a_connection_without_a_match_does_not_show() -> None:
    recorder = Recorder()
    sink = FilteredSink(parse("~u /yes"), [recorder])
    first, second = connection(1), connection(2)
    for on in (first, second):
        sink.opened(on, 1)
        sink.chunk(chunk(on, 0, b"abc"))
        sink.exchange(of(on, "/no"))
    sink.closed(first, 2)
    assert recorder.told == []
    sink.exchange(of(second, "/yes"))
    assert recorder.told == [("opened", second.id, 1), (READ, 0, b"abc"), "/yes"]


def test_what_is_forgotten_is_told_as_lost() -> None:
    recorder = Recorder()
    sink = FilteredSink(parse("~u /yes"), [recorder], waiting_bytes=5000)
    on, other = connection(1), connection(2)
    for each in (on, other):
        sink.opened(each, 1)
    sink.chunk(chunk(other, 0, bytes(900)))
    for number in range(4):
        sink.chunk(chunk(on, 900 * number, bytes(900)))
        sink.chunk(chunk(on, 100 * number, bytes(100), WRITE))
    for each in (other, on):
        sink.exchange(of(each, "/yes"))
    cause = LossCause.FILTER
    assert recorder.told == [
        ("opened", other.id, 1),
        (READ, 900, (900, cause)),
        "/yes",
        ("opened", on.id, 1),
        (READ, 2700, (2700, cause)),
        (WRITE, 200, (200, cause)),
        (WRITE, 200, bytes(100)),
        (READ, 2700, bytes(900)),
        (WRITE, 300, bytes(100)),
        "/yes",
    ]
    sink.summary(Summary())
    [loss] = recorder.summaries[0].losses
    assert (loss.cause, loss.events, loss.bytes) == (cause, 3, 3800)


def test_room_is_free_again_when_connections_end_or_match() -> None:
    recorder = Recorder()
    sink = FilteredSink(parse("~u /yes"), [recorder], waiting_bytes=4096)
    for number in range(100):
        on = connection(number)
        sink.opened(on, 1)
        sink.chunk(chunk(on, 0, bytes(2000)))
        if number % 2:
            sink.exchange(of(on, "/yes"))
        sink.closed(on, 2)
    assert recorder.told.count((READ, 0, bytes(2000))) == 50
    sink.summary(Summary())
    assert recorder.summaries[0].losses == []


def test_only_losses_are_held_for_sinks_without_plaintext() -> None:
    recorder = Recorder(wants_plaintext=False)
    sink = FilteredSink(parse("~u /yes"), [recorder], waiting_bytes=2000)
    on = connection()
    sink.opened(on, 1)
    sink.chunk(chunk(on, 0, bytes(5000)))
    sink.chunk(Chunk(on, READ, 1, 7, 5010, b"", 10, LossCause.RING_FULL))
    sink.exchange(of(on, "/yes"))
    assert recorder.told[1:] == [(READ, 5010, (10, LossCause.RING_FULL)), "/yes"]


def test_it_wants_what_its_sinks_and_its_filter_want() -> None:
    with_bodies = Recorder()
    with_bodies.wants_bodies = True
    assert FilteredSink(parse("~q"), [Recorder(), with_bodies]).wants_bodies
    assert FilteredSink(parse("~b x"), [Recorder()]).wants_bodies
    assert not FilteredSink(parse("~q"), [Recorder()]).wants_bodies
    silent = Recorder()
    silent.wants_messages = False
    assert FilteredSink(parse("~q"), [silent]).wants_messages


def test_the_summary_counts_connections_that_match_and_their_plaintext() -> None:
    """Closed ones and open ones; a byte that was not captured is no plaintext."""
    recorder = Recorder()
    sink = FilteredSink(parse("~u /yes"), [recorder])
    numbered = [connection(number) for number in range(4)]
    for number, on in enumerate(numbered):
        sink.opened(on, 1)
        on.bytes_read, on.bytes_written = 1000 << number, 1
        on.missing = {LossCause.RING_FULL: 1}
        for target in ("/no", "/no") if number == 3 else ("/yes", "/yes", "/no"):
            sink.exchange(of(on, target))
    sink.closed(numbered[0], 2)
    sink.closed(numbered[3], 2)
    numbered[1].bytes_read += 50
    sink.summary(Summary(exchanges=11, connections=4, bytes=15_050))
    [summary] = recorder.summaries
    assert (summary.exchanges, summary.connections, summary.bytes) == (11, 4, 15_050)
    assert (summary.shown, summary.shown_connections, summary.shown_bytes) == (6, 3, 7_050)


@pytest.mark.parametrize("capture", sorted(PCAPS.glob("*.pcap*")), ids=lambda path: path.stem)
def test_all_of_a_capture_is_all_of_its_plaintext(capture: Path, tmp_path: Path) -> None:
    """What ``~all`` lets through is all of the connections that have exchanges."""
    shown = tmp_path / "lines"
    assert main(["read", str(capture), "~all", "--json", "-o", str(shown)]) == 0
    lines = [json.loads(line) for line in shown.read_text().splitlines()]
    summary = lines[-1]
    ids = {each["connection"] for each in lines if each["type"] == "exchange"}
    assert (summary["shown"], summary["shown_connections"]) == (summary["exchanges"], len(ids))
    if len(ids) == summary["connections"]:
        assert summary["shown_bytes"] == summary["bytes"] > 0


@pytest.mark.parametrize("kind", [FilteredSink, AroundSink])
def test_no_hook_goes_past_the_filter(kind: type[Sink]) -> None:
    hooks = {name for name in vars(Sink) if callable(getattr(Sink, name)) and name[0] != "_"}
    # Who opened the sinks closes them, and stores what they have; and nothing passes unseen. Only
    # what makes trees, before the filter, needs to know what begins, and the time. What
    # ``decoded_by`` says is for a filter, not for the sinks after it.
    not_passed = {"began", "close", "consumer", "persist", "tick"}
    own = {name for each in (kind, WaitingSink) for name in vars(each)}
    assert hooks - own - {"decoded_by"} == not_passed


def http(target: str, status: int) -> list[tuple[Direction, bytes | int]]:
    return [
        (WRITE, f"GET {target} HTTP/1.1\r\nHost: example.org\r\n\r\n".encode()),
        (READ, f"HTTP/1.1 {status} X\r\nContent-Length: 2\r\n\r\nok".encode()),
    ]


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """Three connections: the second has /b, 404, after /a."""
    path = tmp_path / "taken.pcapng"
    taker = Taker(path)
    for steps in (http("/a", 200), [*http("/a", 200), *http("/b", 404)], http("/c", 500)):
        taker.take(list(steps))
    taker.close()
    return path


def read(*arguments: str | Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([SSLSNIFF, "read", *arguments], capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return done


def targets(*arguments: str | Path) -> list[str]:
    lines = map(json.loads, read(*arguments, "--json").stdout.splitlines())
    return [line["request"]["target"] for line in lines if line["type"] == "exchange"]


@pytest.mark.slow
def test_every_sink_is_filtered(capture: Path, tmp_path: Path) -> None:
    assert targets(capture) == ["/a", "/a", "/b", "/c"]
    assert targets(capture, "~c 404 | ~u /c") == ["/b", "/c"]
    written = tmp_path / "written.pcapng"
    told = read(capture, "~c 404", "--pcap", written)
    assert told.stderr.startswith("1 shown of 4 exchanges, 1 of 3 connections, ")
    assert told.stderr.endswith("0 bytes lost in all\n")
    assert targets(written) == ["/a", "/b"]  # a capture has whole connections
    [whole] = replay(written)
    assert whole.connection.missing == {}
    lines = read(capture, "~c 404").stdout.splitlines()
    assert ["/b" in line for line in lines] == [True, False]
    dumped = read(capture, "~c 404", "--hexdump").stdout
    assert "HTTP/1.1 500" not in dumped
    assert dumped.count("|") == 0
    chunks = [
        line
        for line in map(json.loads, read(capture, "~c 404", "--chunks").stdout.splitlines())
        if line["type"] == "chunk"
    ]
    assert len(chunks) == 4


@pytest.mark.slow
def test_the_filter_may_stand_before_and_behind_options(capture: Path) -> None:
    assert targets(capture, "--max-body", "1M", "~c 404") == ["/b"]
    assert targets("--force", capture, "~c 404") == ["/b"]


@pytest.mark.slow
def test_a_word_after_the_file_is_a_filter_of_urls(capture: Path) -> None:
    assert targets(capture, "/b$") == targets(capture, "~u /b$") == ["/b"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["lst"], "no command"),
        (["--pid", "1", "list"], "stands first"),
        (["curl"], "comes after --"),
        (["/api/v1", "--pid", "1"], "no operator"),
    ],
)
def test_a_word_alone_is_no_filter(arguments: list[str], said: str) -> None:
    done = subprocess.run([SSLSNIFF, *arguments], capture_output=True, text=True, timeout=20)
    assert done.returncode == 2
    assert said in done.stderr.splitlines()[-1]


@pytest.mark.slow
def test_a_wrong_filter_is_told_before_anything_is_opened(capture: Path, tmp_path: Path) -> None:
    written = tmp_path / "written.pcapng"
    done = read(capture, "~m GET & ~c x", "--pcap", written, code=2)
    assert done.stderr.splitlines() == [
        "sslsniff: wrong filter: ~c takes a number: such as ~c 404",
        "sslsniff:   ~m GET & ~c x",
        "sslsniff:               ^",
    ]
    assert not written.exists()
    live = subprocess.run(
        [SSLSNIFF, "--pcap", written, "(~q", "--", "touch", tmp_path / "touched"],
        capture_output=True,
        timeout=20,
    )
    assert live.returncode == 2
    assert list(tmp_path.iterdir()) == [capture]
