"""One line an exchange, for people; more with ``-v`` and ``-vv``."""

import contextlib
import json
from collections.abc import Callable
from typing import TextIO

from sslsniff.decoders import content
from sslsniff.decoders.messages import Header, Undecoded
from sslsniff.escaping import escape, escape_lines
from sslsniff.model import Body, Chunk, Connection, Exchange, Request, Response
from sslsniff.sinks import text
from sslsniff.sinks.base import Sink

_SHOWN_BODY_BYTES = 1 << 20

Paint = Callable[[str, str], str]
"""Takes the name of a style and text, returns the text in it."""

STYLES = {
    "dim": "dim",
    "process": "cyan",
    "method": "bold",
    "ok": "green",
    "redirect": "yellow",
    "failure": "bold red",
    "loss": "bold magenta",
}
_STATUS_STYLES = {1: "dim", 2: "ok", 3: "redirect", 4: "failure", 5: "failure"}


def plain(_style: str, shown: str) -> str:
    """Return the text as it is: for pipes and files."""
    return shown


class TerminalSink(Sink):
    """Writes to ``stream``; ``verbosity`` 0 a line, 1 also headers, 2 also bodies."""

    def __init__(self, stream: TextIO, verbosity: int = 0, paint: Paint = plain) -> None:
        self._stream = stream
        self._verbosity = verbosity
        self._paint = paint
        self.wants_bodies = verbosity >= 2

    def exchange(self, exchange: Exchange) -> None:
        """See ``Sink``."""
        self._write(self._line(exchange))
        if self._verbosity >= 1:
            if exchange.request is not None:
                self._half(exchange.request, ">")
            for informational in exchange.informational:
                self._half(informational, "<")
            if exchange.response is not None:
                self._half(exchange.response, "<")

    def undecoded(self, connection: Connection, message: Undecoded, time_ns: int) -> None:
        """See ``Sink``."""
        self._write(
            f"{self._prefix(connection, time_ns)}  {text.size(message.size)} from the"
            f" {message.side.value} not decoded: {escape(message.reason)}"
        )

    def chunk(self, chunk: Chunk) -> None:
        """See ``Sink``."""
        if chunk.missing and chunk.cause is not None:
            lost = f"lost {chunk.missing} bytes ({chunk.direction.value}): {chunk.cause.value}"
            self._write(
                f"{self._prefix(chunk.connection, chunk.time_ns)}  {self._paint('loss', lost)}"
            )

    def flush(self) -> None:
        """See ``Sink``."""
        self._stream.flush()

    def _write(self, line: str) -> None:
        self._stream.write(line + "\n")

    def _prefix(self, connection: Connection, time_ns: int) -> str:
        return "  ".join(
            (
                self._paint("dim", text.local_time(time_ns)),
                self._paint("process", text.process(connection.process)),
                text.address(connection.remote),
            )
        )

    def _line(self, exchange: Exchange) -> str:
        request, response = exchange.request, exchange.response
        span_ns = (exchange.ended_ns or exchange.started_ns) - exchange.started_ns
        fields = [
            self._prefix(exchange.connection, exchange.started_ns),
            self._paint("dim", text.protocol(exchange)),
            self._paint("method", escape(request.method or "?")) if request else "?",
            text.url(request) if request else "(request not seen)",
            self._status(response),
            text.duration(span_ns),
            text.size(response.body.size if response else 0),
        ]
        if exchange.missing_bytes:
            fields.append(self._paint("loss", f"{exchange.missing_bytes} bytes missing"))
        if exchange.error:
            fields.append(self._paint("failure", escape(exchange.error)))
        return "  ".join(fields)

    def _status(self, response: Response | None) -> str:
        if response is None:
            return "-"
        if response.status is None:
            return "?"
        style = _STATUS_STYLES.get(response.status // 100, "failure")
        return self._paint(style, str(response.status))

    def _half(self, half: Request | Response, mark: str) -> None:
        if isinstance(half, Request):
            head = f"{half.method or '?'} {half.target or '?'}"
        else:
            head = f"{'?' if half.status is None else half.status} {half.reason}".rstrip()
        self._write(f"  {mark} {escape(head)}")
        self._headers(half.headers, mark)
        if self._verbosity >= 2 and half.body.size:
            self._write(f"  {mark}")
            for line in _body_lines(half.body, half.headers):
                self._write(f"  {mark} {line}")
        self._headers(half.trailers, mark)

    def _headers(self, headers: list[Header], mark: str) -> None:
        for name, value in headers:
            shown = f"{'?' if name is None else name}: {'?' if value is None else value}"
            self._write(f"  {mark} {self._paint('dim', escape(shown))}")


def _body_lines(body: Body, headers: list[Header]) -> list[str]:
    """Return a body for reading: content-decoded, as text when it is text, JSON indented."""
    decoded = content.decode(body.data, headers)
    shown = content.as_text(decoded.data[:_SHOWN_BODY_BYTES], headers)
    if shown is None:
        return [f"({text.size(body.size)}, not text)"]
    with contextlib.suppress(ValueError):  # not JSON: shown as it is
        shown = json.dumps(json.loads(shown), indent=2, ensure_ascii=False)
    lines = escape_lines(shown).split("\n")
    if decoded.error:
        lines.append(f"({decoded.error})")
    if len(body.data) < body.size or len(decoded.data) > _SHOWN_BODY_BYTES:
        lines.append(f"(cut; {text.size(body.size)} on the wire)")
    return lines
