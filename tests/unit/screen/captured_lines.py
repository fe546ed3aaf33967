"""Lines of exchanges, frames and messages, JSON and short ones; as a program, at a rate.

``python -m tests.unit.screen.captured_lines COUNT RATE``: the first COUNT at once, then RATE a
second without an end.
"""

import io
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from sslsniff.core.model import Connection, Exchange, InnerMessage
from sslsniff.decoders.messages import Header, ServerSentEvent, Side
from sslsniff.destinations.inherited import LINES_TO, environment_with
from sslsniff.destinations.line_queue import LineQueue
from sslsniff.forms.json.json_lines import JsonSink
from sslsniff.forms.json.short_lines import ShortLines
from tests.unit.exchanges import START_NS, connection, exchange, request, response

_BATCH_S = 0.02
_TIME = rb"T\d\d:\d\d:\d\d\.\d{6}Z"


def lines_of(capture: Path) -> list[bytes]:
    """Return the lines that the screen gets of a capture file, with frames."""
    queue = LineQueue()
    command: list[str | Path] = [sys.executable, "-m", "sslsniff", "read", capture]
    command += ["--json", "--frames"]
    environment = environment_with(LINES_TO, queue.fd)
    subprocess.run(command, env=environment, capture_output=True, check=True, pass_fds=(queue.fd,))
    lines = [*queue.lines()]
    queue.close()
    return lines


def written(write: Callable[[JsonSink], object]) -> bytes:
    """Return what a sink writes."""
    out = io.BytesIO()
    write(JsonSink(out))
    return out.getvalue()


def short_lines(write: Callable[[ShortLines], object]) -> list[bytes]:
    """Return the lines that the sink of short lines writes, without their ends."""
    out = io.BytesIO()
    write(ShortLines(out))
    *lines, end = out.getvalue().split(b"\n")
    assert end == b""
    return lines


def exchange_line(number: int, *, on: Connection | None = None, body: bytes = b"") -> bytes:
    """Return the line of exchange ``number``: the tenth of each ten failed."""
    headers: list[Header] = [("user-agent", "curl/7.88.1"), ("accept", "*/*")]
    shown = exchange(
        request(("GET", "POST")[number % 2], f"/items/{number}?page=1", headers, body),
        response(500 if number % 10 == 9 else 200, [("content-type", "text/plain")], body or b"ok"),
        on or connection(number % 50, pid=100 + number % 5, comm=f"worker{number % 5}"),
        protocol="http/2",
    )
    shown.stream = 2 * number + 1
    shown.started_ns = START_NS + number * 1_000_000
    shown.first_byte_ns = shown.started_ns + 2_000_000
    shown.ended_ns = shown.started_ns + 3_000_000 + number % 7 * 1_000_000
    return written(lambda sink: sink.exchange(shown))


def event_line(of: Exchange, number: int) -> bytes:
    """Return the line of a server-sent event."""
    return _event_line(of, f'{{"number": {number}}}'.encode(), number)


def event_lines(target: str, *data: bytes) -> tuple[bytes, ...]:
    """Return the lines of the events of an exchange that has not ended, the newest of all."""
    carrier = exchange(request("POST", target), response(), connection(3))
    carrier.started_ns = 2 * START_NS
    return tuple(_event_line(carrier, each, number) for number, each in enumerate(data))


def _event_line(of: Exchange, data: bytes, number: int) -> bytes:
    event = ServerSentEvent(of.stream or 0, Side.SERVER, data, len(data), event="message")
    inner = InnerMessage(of.connection, of, event, of.started_ns + number * 1_000_000, 7)
    return written(lambda sink: sink.message(inner))


def numbered_lines() -> Callable[[int], bytes]:
    """Return a function that returns the line of an exchange quickly: 2 us, not 40."""
    first = 1_000_000
    templates = [exchange_line(first + number) for number in range(50)]

    def line(number: int) -> bytes:
        """Return it with its number in the URL, and a time of its own."""
        seconds, rest = divmod(number, 1000)
        time_of_day = f"{seconds // 3600 % 24:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        place = number % len(templates)
        made = templates[place].replace(b"/%d?" % (first + place), b"/%d?" % number)
        return re.sub(_TIME, f"T{time_of_day}.{rest:03}000Z".encode(), made, count=1)

    return line


def main(count: int, rate: int) -> None:
    """Write lines; each batch is due at its time, however long the ones before took."""
    line, out = numbered_lines(), sys.stdout.buffer
    out.writelines(map(line, range(count)))
    out.flush()
    began, number = time.monotonic(), 0
    while True:
        due = int((time.monotonic() - began) * rate)
        out.writelines(line(count + each) for each in range(number, due))
        out.flush()
        number = due
        time.sleep(_BATCH_S)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
