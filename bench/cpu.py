"""CPU that sslsniff itself takes for an event: a call of the library that passed plaintext."""

from collections.abc import Iterator

from bench.loads import Exchanges, Messages, own_folder
from bench.rows import Row
from bench.sniffer import Decoding, Running

_MESSAGES = 400_000
_MESSAGES_S = 40_000
_EXCHANGES = 100_000
_EXCHANGES_S = 5_000
_CONNECTIONS = 50


def measure() -> Iterator[Row]:
    """Watch calls of 1 KB, only captured, and small exchanges, decoded."""
    with own_folder() as (folder, certificate):
        with Messages(folder, certificate) as messages:
            capture = folder / "capture.pcapng"
            captures = Running("--force", "--pcap", capture, "--pid", str(messages.pid))
            before_s = captures.cpu_s()
            seconds, events = messages.send(_MESSAGES, 1024, _MESSAGES_S)
            spent_s = captures.cpu_s() - before_s
            _, lost = captures.stop_whole()
            yield _row("1 KB captured to pcap", spent_s, events, seconds, lost, 3)
        with Exchanges(folder, certificate) as exchanges:
            decodes = Decoding(
                folder / "decoded.jsonl", "--no-children", "--pid", str(exchanges.pid)
            )
            before_s = decodes.cpu_s()
            each = _EXCHANGES // _CONNECTIONS
            seconds = exchanges.make(_CONNECTIONS, each, _CONNECTIONS, _EXCHANGES_S)
            spent_s = decodes.cpu_s() - before_s
            _, _, lost = decodes.stop_counted()
            yield _row("HTTP/1.1 decoded to JSON", spent_s, 2 * _EXCHANGES, seconds, lost, 15)


def _row(what: str, spent_s: float, events: int, seconds: float, lost: int, bar: float) -> Row:
    note = f"{events:,} events, {events / seconds:,.0f} a second, {lost} bytes lost"
    return Row(f"CPU an event, {what}", 1e6 * spent_s / events, "us", bar, note)
