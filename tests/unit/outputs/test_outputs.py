"""Each text sink on the same two exchanges, one of them hostile."""

import gzip
import io
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TextIO

import pytest

from sslsniff.core.escaping import escape
from sslsniff.core.handshakes import UNUSED, HandshakeEnd, HandshakeFacts
from sslsniff.core.losses import Loss, LossCause
from sslsniff.core.model import (
    Address,
    Body,
    Chunk,
    Connection,
    Direction,
    Exchange,
    Handshake,
    NotProbed,
    Request,
    Response,
)
from sslsniff.core.process import Process
from sslsniff.core.sink import HandshakeCounts, Sink, Summary
from sslsniff.decoders.messages import Frame, Headers, Side, Undecoded
from sslsniff.forms.json.json_lines import JsonSink
from sslsniff.forms.text.hexdump import HexdumpSink, hexdump
from sslsniff.forms.text.summary import SummarySink
from sslsniff.outputs.lines.frame_lines import FrameLines
from sslsniff.outputs.lines.terminal import TerminalSink

START = 1_700_000_000_000_000_000
HOSTILE = "\x1b]0;gone\x07\r\n\u202e"


def connection() -> Connection:
    return Connection(
        id="7-1",
        process=Process(7, "demo\x1b[31m"),
        library="openssl",
        role=Side.CLIENT,
        from_start=True,
        opened_ns=START,
        local=Address("127.0.0.1", 4000),
        remote=Address("127.0.0.1", 443),
        alpn="h2",
    )


def exchange(body: bytes = b'{"a": 1}', **more: Any) -> Exchange:
    return Exchange(
        connection(),
        "http/2",
        3,
        70,
        START,
        START + 1_000_000,
        START + 2_500_000,
        Request("GET", "/p" + HOSTILE, "https", "h", Headers([("x", HOSTILE), ("unknown", None)])),
        Response(200, "", Headers([("content-type", "application/json")]), Body(len(body), body)),
        **more,
    )


def shown(make: Callable[[TextIO], Sink], use: Callable[[Sink], None]) -> str:
    file = io.BytesIO()
    stream = io.TextIOWrapper(file, "utf-8", newline="\n")
    sink = make(stream)
    use(sink)
    sink.flush()
    return file.getvalue().decode()


def json_sink(out: TextIO) -> Sink:
    return JsonSink(out.buffer)


def harmless(text: str) -> bool:
    return all(char == "\n" or char.isprintable() for char in text)


@pytest.mark.parametrize("verbosity", [0, 1, 2])
def test_terminal_lines(verbosity: int) -> None:
    text = shown(lambda out: TerminalSink(out, verbosity), lambda sink: sink.exchange(exchange()))
    assert harmless(text)
    first, *rest = text.splitlines()
    assert first.split()[1:] == [
        *("demo\\x1b[31m[7]", "127.0.0.1:443", "http/2#3", "GET", "200", "2.5", "ms", "8", "B"),
        "https://h/p" + escape(HOSTILE),
    ]
    assert ("  > unknown: ?" in rest) == (verbosity >= 1)
    assert ('  <   "a": 1' in rest) == (verbosity >= 2)


def test_terminal_tells_errors_and_losses() -> None:
    failed = exchange(error="reset: CANCEL")
    assert failed.response is not None
    failed.response.body.missing = 9
    text = shown(TerminalSink, lambda sink: sink.exchange(failed))
    assert text.endswith("9 bytes missing  reset: CANCEL\n")
    lost = Chunk(connection(), Direction.READ, START, 70, 5, b"", 5, LossCause.RING_FULL)
    assert "lost 5 bytes (read): ring full" in shown(TerminalSink, lambda sink: sink.chunk(lost))
    undecoded = Undecoded(Side.SERVER, b"??", 1234, "not HTTP" + HOSTILE)
    text = shown(TerminalSink, lambda sink: sink.undecoded(connection(), undecoded, START))
    assert "1.2 kB from the server not decoded: not HTTP" in text
    assert harmless(text)


def test_terminal_sums_up_what_is_not_decoded() -> None:
    """However much there is, and for however many reasons: a few lines a connection."""

    def use(sink: Sink) -> None:
        for number in range(10_000):
            for side in Side:
                reason = f"reason {number % 100}"
                sink.undecoded(connection(), Undecoded(side, b"?\x1b", 10, reason), START)
        sink.closed(connection(), START)
        sink.undecoded(connection(), Undecoded(Side.CLIENT, b"alone", 5, "the end"), START)
        sink.summary(Summary())

    lines = shown(TerminalSink, use).splitlines()
    assert len(lines) == 9 * 3 + 2
    assert lines[0].endswith("10 B from the client not decoded: reason 0")
    assert lines[1] == "  ?\\x1b"
    # Eight reasons by name, a line and a preview each, and one line for all others; then the sums.
    assert lines[18].endswith(
        "in all 1.0 kB from the client, 1.0 kB from the server not decoded: reason 0"
    )
    assert lines[26].endswith(
        "in all 92.0 kB from the client, 92.0 kB from the server not decoded: other reasons"
    )
    assert lines[-2].endswith("5 B from the client not decoded: the end")


def test_long_urls_are_cut_without_headers() -> None:
    long = exchange()
    assert long.request is not None
    long.request.target = "/" + 5_000 * "x" + 5_000 * "y"
    [line] = shown(TerminalSink, lambda sink: sink.exchange(long)).splitlines()
    assert len(line) < 600
    assert line.endswith("xxx…" + 166 * "y")
    for verbosity in (1, 2):
        line, *headers = shown(
            lambda out, verbosity=verbosity: TerminalSink(out, verbosity),  # type: ignore[misc]
            lambda sink: sink.exchange(long),
        ).splitlines()
        assert line.endswith("  https://h" + long.request.target)
        assert headers[0] == f"  > GET {long.request.target}"


def test_json_exchange_is_as_documented() -> None:
    line = json.loads(shown(json_sink, lambda sink: sink.exchange(exchange())))
    assert line["type"] == "exchange"
    assert line["time"] == "2023-11-14T22:13:20.000000Z"
    assert (line["duration_ms"], line["first_byte_ms"]) == (2.5, 1.0)
    assert (line["pid"], line["tid"], line["connection"]) == (7, 70, "7-1")
    assert line["client"] == {"ip": "127.0.0.1", "port": 4000}
    assert line["server"] == {"ip": "127.0.0.1", "port": 443}
    assert (line["protocol"], line["stream"]) == ("http/2", 3)
    assert line["request"]["headers"] == [["x", HOSTILE], ["unknown", None]]
    assert line["response"]["body"] == {"size": 8, "text": '{"a": 1}'}
    assert (line["missing_bytes"], line["error"], line["informational"]) == (0, None, [])


def test_json_bodies() -> None:
    packed = gzip.compress(b"hello")
    compressed = exchange(packed)
    assert compressed.response is not None
    compressed.response.headers.append(("content-encoding", "gzip"))
    line = json.loads(shown(json_sink, lambda sink: sink.exchange(compressed)))
    body = line["response"]["body"]
    assert body["size"] == len(packed)
    assert body["decoded"] == {"size": 5, "text": "hello"}
    assert "base64" in body
    cut = exchange(b"abc")
    assert cut.response is not None
    cut.response.body.size = 10
    line = json.loads(shown(json_sink, lambda sink: sink.exchange(cut)))
    assert line["response"]["body"] == {"size": 10, "text": "abc", "truncated": True}


def test_json_of_what_utf8_and_64_bits_do_not_hold() -> None:
    odd = exchange()
    assert odd.request is not None
    odd.request.headers.append(("x", "\udcff"))
    odd.request.body.size = 1 << 70
    lines = shown(json_sink, lambda sink: sink.exchange(odd))
    assert lines.endswith("\n")
    request = json.loads(lines)["request"]
    assert request["headers"][-1] == ["x", "\udcff"]
    assert request["body"]["size"] == 1 << 70


def test_json_lines_tell_what_became_known_since_the_last() -> None:
    late = exchange()
    near = late.connection
    near.role = near.local = near.remote = None

    def use(sink: Sink) -> None:
        sink.exchange(late)
        near.local, near.remote = Address("::1", 1), Address("::1", 2)
        sink.exchange(late)
        near.role = Side.SERVER
        sink.exchange(late)
        near.remote = Address("::1", 3)
        sink.exchange(late)

    lines = [json.loads(line) for line in shown(json_sink, use).splitlines()]
    assert [line["role"] for line in lines] == [None, None, "server", "server"]
    assert [line["server"] for line in lines] == [None, None, *[{"ip": "::1", "port": 1}] * 2]
    assert [line["client"] and line["client"]["port"] for line in lines] == [None, None, 2, 3]


def test_json_chunks_only_where_asked() -> None:
    chunk = Chunk(connection(), Direction.WRITE, START, 70, 5, b"\xff")
    assert shown(json_sink, lambda sink: sink.chunk(chunk)) == ""
    line = json.loads(
        shown(lambda out: JsonSink(out.buffer, chunks=True), lambda sink: sink.chunk(chunk))
    )
    assert (line["type"], line["direction"], line["offset"]) == ("chunk", "write", 5)
    assert line["data"] == {"size": 1, "base64": "/w=="}


def test_json_tells_losses_and_the_summary() -> None:
    summary = Summary(1, 1, 10, 2_000_000_000, [Loss(LossCause.RING_FULL, 2, 5)], joined=1)
    lines = shown(json_sink, lambda sink: sink.summary(summary)).splitlines()
    loss, last = map(json.loads, lines)
    assert (loss["type"], loss["cause"], loss["bytes"]) == ("loss", "ring full", 5)
    assert last == {
        "type": "summary",
        "exchanges": 1,
        "connections": 1,
        "joined_connections": 1,
        "bytes": 10,
        "lost_events": 2,
        "lost_bytes": 5,
        "duration_s": 2.0,
    }
    summary.left_out = 9
    *_, last = shown(json_sink, lambda sink: sink.summary(summary)).splitlines()
    assert json.loads(last)["left_out_connections"] == 9


def test_warnings_are_shown_where_there_are_some() -> None:
    smuggling = exchange()
    assert "warnings" not in json.loads(shown(json_sink, lambda sink: sink.exchange(smuggling)))
    smuggling.warnings.append("Content-Length beside Transfer-Encoding")
    line = json.loads(shown(json_sink, lambda sink: sink.exchange(smuggling)))
    assert line["warnings"] == ["Content-Length beside Transfer-Encoding"]
    text = shown(TerminalSink, lambda sink: sink.exchange(smuggling))
    assert "warning: Content-Length beside Transfer-Encoding" in text


def test_json_frames() -> None:
    frame = Frame(3, Side.SERVER, "DATA", ["END_STREAM"], 2, {"data": b"hi"})
    text = shown(json_sink, lambda sink: sink.frame(connection(), frame, START, 70))
    line = json.loads(text)
    assert (line["type"], line["frame"], line["direction"]) == ("frame", "DATA", "read")
    assert (line["stream"], line["flags"], line["length"]) == (3, ["END_STREAM"], 2)
    assert line["data"] == {"size": 2, "text": "hi"}


def test_frame_lines_are_harmless() -> None:
    frame = Frame(3, Side.CLIENT, "HEADERS", ["END_HEADERS"], 9, {"headers": [("x", HOSTILE)]})
    text = shown(FrameLines, lambda sink: sink.frame(connection(), frame, START, 70))
    assert harmless(text)
    assert "-> #3 HEADERS [END_HEADERS] 9 B" in text


def test_hexdump_lines() -> None:
    assert hexdump(b"GET / HTTP/1.1\r\n\xff", 16) == [
        "00000010  47 45 54 20 2f 20 48 54 54 50 2f 31 2e 31 0d 0a  GET / HTTP/1.1..",
        f"00000020  {'ff':<47}  .",
    ]
    chunk = Chunk(connection(), Direction.READ, START, 70, 0, b"\x1b[2J")
    text = shown(HexdumpSink, lambda sink: sink.chunk(chunk))
    assert harmless(text)
    assert "read 4 bytes at 0" in text


def test_summary_lists_lossy_connections() -> None:
    lossy = connection()
    lossy.missing[LossCause.RING_FULL] = 5
    summary = Summary(3, 1, 10, 2_000_000_000, [Loss(LossCause.RING_FULL, 2, 5)], [lossy])
    text = shown(SummarySink, lambda sink: sink.summary(summary))
    assert text.splitlines() == [
        "3 exchanges, 1 connection, 10 B of plaintext in 2.00 s, 5 bytes lost",
        "lost for ring full: 2 times, 5 bytes",
        "  7-1  demo\\x1b[31m[7]  127.0.0.1:443  bytes lost: 5 (ring full)",
    ]


GNUTLS = NotProbed(
    *("gnutls", "GnuTLS", "3.7.9", "no probes", "log keys", "/lib/\x1b[2J.so", 2, 3),
    Process(7, "demo\x1b[31m"),
)


@pytest.mark.parametrize(
    ("found", "line"),
    [
        (
            GNUTLS,
            "not probed: GnuTLS 3.7.9 in demo\\x1b[31m[7] and 2 more processes"
            " (/lib/\\x1b[2J.so and 1 more file): no probes; log keys",
        ),
        (
            GNUTLS._replace(version=None, remedy="", files=1, processes=2),
            "not probed: GnuTLS in demo\\x1b[31m[7] and 1 more process"
            " (/lib/\\x1b[2J.so): no probes",
        ),
        (
            GNUTLS._replace(files=1, processes=1, connections=1, peer="to a.test at 1.2.3.4:443"),
            "not probed: GnuTLS 3.7.9 in demo\\x1b[31m[7] (/lib/\\x1b[2J.so): no probes"
            " (1 TLS connection without plaintext, first to a.test at 1.2.3.4:443); log keys",
        ),
        (
            GNUTLS._replace(files=1, processes=1, connections=3, peer="to 1.2.3.4:443"),
            "not probed: GnuTLS 3.7.9 in demo\\x1b[31m[7] (/lib/\\x1b[2J.so): no probes"
            " (3 TLS connections without plaintext, first to 1.2.3.4:443); log keys",
        ),
        (
            GNUTLS._replace(files=1, processes=0, first=None),
            "not probed: GnuTLS 3.7.9 (/lib/\\x1b[2J.so): no probes; log keys",
        ),
    ],
)
def test_summary_names_what_was_not_seen(found: NotProbed, line: str) -> None:
    text = shown(SummarySink, lambda sink: sink.summary(Summary(not_probed=[found])))
    silent = [] if found.connections else ["no TLS handshake was seen"]
    assert text.splitlines()[1:] == [*silent, line]


def test_json_summary_has_what_was_not_seen() -> None:
    unused = GNUTLS._replace(remedy="", processes=0, first=None)
    rows = _json_summary(Summary(not_probed=[GNUTLS, unused]))["not_probed"]
    assert rows == [
        {
            "library": "gnutls",
            "version": "3.7.9",
            "file": "/lib/\x1b[2J.so",
            "files": 2,
            "pid": 7,
            "comm": "demo\x1b[31m",
            "processes": 3,
            "connections": 0,
            "peer": None,
            "reason": "no probes",
            "remedy": "log keys",
        },
        {**rows[0], "remedy": None, "processes": 0, "pid": None, "comm": None},
    ]
    assert _json_summary(Summary(not_probed=[]))["not_probed"] == []
    assert "not_probed" not in _json_summary(Summary())


def _json_summary(summary: Summary) -> dict[str, Any]:
    stream = io.BytesIO()
    JsonSink(stream).summary(summary)
    shown: dict[str, Any] = json.loads(stream.getvalue())
    return shown


def test_summary_says_of_how_many() -> None:
    """Of what a filter let through; what is of everything says so."""
    whole = Summary(exchanges=10, connections=3, bytes=2_600, joined=2, duration_ns=1_000_000)
    text = shown(SummarySink, lambda sink: sink.summary(whole))
    assert text == (
        "10 exchanges, 3 connections (2 joined in the middle), 2.6 kB of plaintext in 1.0 ms,"
        " 0 bytes lost\n"
    )
    part = replace(whole, shown=4, shown_connections=1, shown_bytes=234)
    text = shown(SummarySink, lambda sink: sink.summary(part))
    assert text == (
        "4 shown of 10 exchanges, 1 of 3 connections (2 of all joined in the middle),"
        " 234 B of 2.6 kB of plaintext in 1.0 ms, 0 bytes lost in all\n"
    )
    line = json.loads(shown(json_sink, lambda sink: sink.summary(part)))
    assert {name: line[name] for name in ("shown", "shown_connections", "shown_bytes")} == {
        "shown": 4,
        "shown_connections": 1,
        "shown_bytes": 234,
    }


def test_summary_tells_what_sampling_left_out() -> None:
    summary = Summary(3, 1, 10, 2_000_000_000, left_out=9)
    text = shown(SummarySink, lambda sink: sink.summary(summary))
    assert text.splitlines()[1:] == ["9 connections left out by --sample"]


def failed(
    kind: str = "expired", text: str = "the certificate of a\x1b[31m has expired"
) -> Handshake:
    made = Connection("7-2", Process(7, "demo"), "openssl", Side.CLIENT, True, START)
    made.sni, made.remote = "a\x1b[31m.test", Address("10.0.0.2", 443)
    end = HandshakeEnd(kind, text, is_failure=kind != UNUSED)
    return Handshake(made, START, START + 2_000_000, end, HandshakeFacts(sent_alert=45))


def test_a_handshake_that_failed() -> None:
    line = json.loads(shown(json_sink, lambda sink: sink.handshake(failed())))
    assert (line["type"], line["failure"], line["duration_ms"]) == ("handshake", "expired", 2)
    assert (line["sent_alert"], line["received_alert"], line["ending"]) == (45, None, "unknown")
    assert (line["server"], line["client"]) == ({"ip": "10.0.0.2", "port": 443}, None)
    text = shown(TerminalSink, lambda sink: sink.handshake(failed()))
    assert text.endswith(
        "2.0 ms  handshake failed, a\\x1b[31m.test: the certificate of a\\x1b[31m has expired\n"
    )


def test_a_handshake_without_data_needs_v() -> None:
    unused = failed(UNUSED, "no data followed")
    assert json.loads(shown(json_sink, lambda sink: sink.handshake(unused)))["failure"] is None
    assert shown(TerminalSink, lambda sink: sink.handshake(unused)) == ""
    text = shown(lambda stream: TerminalSink(stream, 1), lambda sink: sink.handshake(unused))
    assert text.endswith("handshake, a\\x1b[31m.test: no data followed\n")


def test_the_summary_counts_handshakes() -> None:
    counts = HandshakeCounts(seen=3)
    for number in range(300):
        counts.add(failed("expired", f"reason {number % 270}"))
    counts.add(failed(UNUSED))
    summary = Summary(0, handshakes=counts, not_probed=[])
    text = shown(SummarySink, lambda sink: sink.summary(summary)).splitlines()
    assert text[1] == "304 TLS handshakes, 300 failed, 1 without data"
    assert text[2] == "  2 handshakes failed: reason 0"
    assert text[-1] == "  280 handshakes failed for other reasons"
    line = _json_summary(summary)
    assert (line["handshakes"], line["failed_handshakes"], line["unused_handshakes"]) == (
        304,
        300,
        1,
    )
    assert len(line["handshake_failures"]) == 256
    assert line["handshake_failures"][0] == {"failure": "expired", "text": "reason 0", "count": 2}
