"""Lines that fit a terminal: their columns, and what is cut."""

import io
import itertools
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from sslsniff.core.losses import LossCause
from sslsniff.core.model import (
    Address,
    Body,
    Chunk,
    Direction,
    Exchange,
    InnerMessage,
    Request,
    Response,
)
from sslsniff.core.process import Process
from sslsniff.decoders.messages import Headers, Side, Undecoded, WebSocketMessage
from sslsniff.forms.text.cutting import cut_end, cut_middle
from sslsniff.forms.text.lines import Lines
from sslsniff.outputs.lines.terminal import TerminalSink
from tests.terminal import COLOUR, shown_on_terminal, terminal
from tests.unit.captures import READ, WRITE, Taker, answer, get
from tests.unit.exchanges import START_NS, connection

SSLSNIFF = Path(sys.executable).with_name("sslsniff")
WIDE = "https://例え.jp/パス/" + "とても長い" * 20 + "/終わり?x=1"
HOSTILE = "\x1b[31m\u202e\U000e0001" * 40
PLAIN = "https://example.org/very/long/" + "path/" * 30 + "end?x=1"
TEXTS = [PLAIN, WIDE, HOSTILE, "e\u0301" * 60, "x" * 79 + "\u4f60", "", "\u0301\u4f60a"]
ESCAPE = re.compile(r"\\x1b|\\u202e|\\ue0001")


def an_exchange(target: str = "/p", **more: Any) -> Exchange:
    on = connection()
    on.process = more.pop("process", Process(22761, "python"))
    on.remote = Address("127.0.0.1", 32776)
    request = Request(more.pop("method", "GET"), target, "https", "localhost:41843", Headers())
    response = Response(more.pop("status", 200), "", Headers(), Body(1234))
    ended_ns = START_NS + more.pop("lasted_ns", 2_500_000)
    times = START_NS, START_NS + 1_000_000, ended_ns
    return Exchange(on, "http/2", 3, 70, *times, request, response, **more)


def line(columns: int | None, exchange: Exchange, **options: Any) -> str:
    return Lines(columns=lambda: columns, **options).exchange(exchange)


@pytest.mark.parametrize("raw", TEXTS)
@pytest.mark.parametrize("cut", [cut_end, cut_middle])
def test_what_is_cut_fits_and_has_no_half_escape(cut: Any, raw: str) -> None:
    whole = cut(raw, 10_000)
    for columns in (-3, 0, *range(1, 120), 400):
        shown = cut(raw, columns)
        assert cell_len(shown) <= max(columns, 0)
        assert shown.isprintable()
        head, mark, tail = shown.partition("…")
        if not mark:
            assert shown == whole or columns < 1
            continue
        assert cell_len(whole) > columns
        assert whole.startswith(head)
        assert whole.endswith(tail)
        assert "\\" not in ESCAPE.sub("", head + "-" + tail)
        assert not tail or cell_len(tail[0]) > 0
        assert cell_len(shown) >= columns - 9  # no more is left out than one escape is wide


def test_the_middle_of_a_url_is_cut() -> None:
    assert cut_middle("https://host/very/long/path/to/the/end?x=1", 31) == (
        "https://host/very/lo…he/end?x=1"
    )
    assert cut_middle("https://host/p", 14) == "https://host/p"


def test_lines_without_a_terminal_show_all_in_columns() -> None:
    assert line(None, an_exchange()).split(".", 1)[1] == (
        "123  python[22761]   127.0.0.1:32776  http/2#3    GET      200    2.5 ms    1.2 kB"
        "  https://localhost:41843/p"
    )
    odd = an_exchange(process=Process(1234567, "a" * 15), method="PROPFIND", lasted_ns=10**13)
    shown = line(None, odd)
    assert "  aaaaaaaaaaaaaaa[1234567]  127.0.0.1:32776  http/2#3    PROPFIND  200  " in shown
    assert "  10000.00 s    1.2 kB  https://localhost:41843/p" in shown


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        (40, "GET      200    2.5 ms  https://lo…g/end"),
        (60, "22:13:20.123  GET      200    2.5 ms  https://localh…ong/end"),
        (80, "22:13:20  python[22761]   GET      200    2.5 ms  https://localhost:4…y/long/end"),
        (
            120,
            "22:13:20  python[22761]   http/2#3    GET      200    2.5 ms    1.2 kB"
            "  https://localhost:41843/very/lo…re/very/long/end",
        ),
    ],
)
def test_lines_fit_a_terminal(columns: int, shown: str) -> None:
    hour = re.compile(r"^\d\d:")
    made = line(columns, an_exchange("/very/long/" * 9 + "here/very/long/end"))
    assert hour.sub("22:", made) == shown
    assert len(made) == columns


def test_columns_are_aligned() -> None:
    """Whatever is in them, on every width; on wide terminals there is more of them."""
    some = [
        an_exchange(),
        an_exchange("/" + "x" * 500, status=404, method="OPTIONS"),
        an_exchange(WIDE, lasted_ns=99_123_000_000, process=Process(7, "nginx")),
    ]
    counts = []
    for columns in range(20, 240):
        shown = [line(columns, each) for each in some]
        assert max(map(cell_len, shown)) <= columns
        [start] = {each.index("http") for each in shown}
        assert columns - start >= columns * 3 // 8
        counts.append(len(re.split("  +", shown[0])))
    assert counts[0] == 2
    assert counts[-1] == 9
    assert counts == sorted(counts)


def test_every_width_shows_something() -> None:
    for columns, each in itertools.product(range(1, 30), (an_exchange(), an_exchange(WIDE))):
        shown = line(columns, each)
        assert 0 < cell_len(shown) <= columns
    assert cell_len(line(80, an_exchange(process=Process(1234567, "プロセス名です")))) <= 80


def test_remarks_have_room_beside_a_long_url() -> None:
    failed = an_exchange(PLAIN, error="reset: CANCEL")
    assert failed.response is not None
    failed.response.body.missing = 9
    shown = line(120, failed)
    assert shown.endswith("  9 bytes missing  reset: CANCEL")
    assert len(shown) == 120
    failed.error = "x" * 300
    assert len(line(100, failed)) == 100
    assert line(None, failed).endswith(f"  9 bytes missing  {300 * 'x'}")


def test_with_headers_nothing_is_cut() -> None:
    for columns in (None, 40, 80):
        shown = line(columns, an_exchange("/" + "x" * 9000), is_whole=True)
        assert shown == line(None, an_exchange("/" + "x" * 9000), is_whole=True)
        assert shown.endswith("https://localhost:41843/" + "x" * 9000)


def test_all_lines_of_a_terminal_fit() -> None:
    """Also those of messages, of losses and of what is not decoded."""
    data = (WIDE + HOSTILE).encode()
    for columns in (12, 40, 80, 200):
        file = io.StringIO()
        sink = TerminalSink(file, columns=lambda columns=columns: columns)  # type: ignore[misc]
        message = WebSocketMessage(1, Side.SERVER, data, len(data), opcode="text", missing=7)
        message.error = "bytes lost"
        sink.message(InnerMessage(connection(), an_exchange("/" + WIDE), message, START_NS, 1))
        lost = Chunk(connection(), Direction.READ, START_NS, 7, 5, b"", 5, LossCause.RING_FULL)
        sink.chunk(lost)
        sink.undecoded(connection(), Undecoded(Side.CLIENT, data, 9, WIDE), START_NS)
        shown = file.getvalue().splitlines()
        assert len(shown) == 4
        assert max(map(cell_len, shown)) <= columns
        if columns == 200:
            assert "  7 bytes missing  bytes lost" in shown[0]


def pieces(path: Path, count: int) -> list[bytes]:
    """Return a capture of requests with long targets, in a piece for each of them."""
    taker = Taker(path)
    ends = [0]
    for number in range(count):
        taker.take([(WRITE, get("/" + "x" * 300 + f"/{number}")), (READ, answer(b"ok"))])
        taker.sink.flush()
        ends.append(path.stat().st_size)
    taker.close()
    whole = path.read_bytes()
    return [whole[start:end] for start, end in itertools.pairwise(ends)]


@pytest.mark.heavy
def test_a_terminal_that_is_resized(tmp_path: Path) -> None:
    """The lines of a running sslsniff follow; a terminal without a width counts as 80 columns."""
    widths = (80, 47, 0, 163)
    with (
        terminal(widths[0]) as screen,
        subprocess.Popen(
            [SSLSNIFF, "read", "-"], stdin=subprocess.PIPE, stdout=screen.fd, bufsize=0
        ) as process,
    ):
        assert process.stdin is not None
        for number, piece in enumerate(pieces(tmp_path / "capture.pcapng", len(widths))):
            screen.resize(widths[number])
            process.stdin.write(piece)
            deadline = time.monotonic() + 30
            while screen.shown.count("\n") <= number and time.monotonic() < deadline:
                time.sleep(0.01)
        process.stdin.close()
    shown = COLOUR.sub("", screen.shown).splitlines()
    assert [len(each) for each in shown[:4]] == [80, 47, 80, 163]
    assert [each[-2:] for each in shown[:4]] == ["/0", "/1", "/2", "/3"]
    assert len(shown) == 5


@pytest.mark.heavy
@pytest.mark.parametrize("columns", [40, 80, 200])
def test_read_on_a_terminal(columns: int, tmp_path: Path) -> None:
    path = tmp_path / "capture.pcapng"
    pieces(path, 3)
    *shown, summary = shown_on_terminal(columns, SSLSNIFF, "read", path)
    assert [len(each) for each in shown] == [columns] * 3
    assert summary.startswith("3 exchanges")
    whole = shown_on_terminal(columns, SSLSNIFF, "read", path, "-v")
    assert f"https://example.org/{300 * 'x'}/2" in "\n".join(whole)
    output = tmp_path / "lines.txt"
    shown_on_terminal(columns, SSLSNIFF, "read", path, "-o", output)
    assert output.read_text().count(300 * "x") == 3
