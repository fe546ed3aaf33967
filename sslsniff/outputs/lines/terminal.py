"""Writes one line for each exchange, for people; more with ``-v`` and ``-vv``."""

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, TextIO

from sslsniff.core.errors import counted
from sslsniff.core.escaping import escape
from sslsniff.core.model import (
    Chunk,
    Connection,
    Exchange,
    Handshake,
    InnerMessage,
    Request,
    Response,
)
from sslsniff.core.sink import Sink
from sslsniff.decoders.messages import Header, RpcNotification, Side, Undecoded
from sslsniff.decoders.opaque import UNKNOWN_PROTOCOL
from sslsniff.forms.proto_fields import Schema, no_schema
from sslsniff.forms.text.bodies import body_lines
from sslsniff.forms.text.lines import Lines, Paint, endless, plain, redacted_text
from sslsniff.forms.text.message_lines import content_lines, is_keepalive, message_line
from sslsniff.outputs.lines.undecoded import UndecodedLines

if TYPE_CHECKING:
    from sslsniff.functions.outputs.call_lines import CallLines
    from sslsniff.functions.outputs.traced_call import CallsOf


class TerminalSink(Sink):
    """Writes to ``stream`` a line for each exchange.

    ``verbosity``: 1 adds headers, 2 bodies as well. ``columns`` returns the width of the terminal,
    None if there is none: lines are cut to it, unless headers are shown. ``calls_of``: returns the
    calls to show under an exchange.
    """

    def __init__(
        self,
        stream: TextIO,
        verbosity: int = 0,
        paint: Paint = plain,
        schema: Schema = no_schema,
        columns: Callable[[], int | None] = endless,
        calls_of: "CallsOf | None" = None,
    ) -> None:
        self._stream = stream
        self._verbosity = verbosity
        self._paint = paint
        self._schema = schema
        self._lines = Lines(paint, columns, is_whole=verbosity >= 1)
        self._calls_of = calls_of
        self._undecoded = UndecodedLines(self._write, self._lines)
        self.wants_bodies = verbosity >= 2

    def exchange(self, exchange: Exchange) -> None:
        """See ``Sink``. What both ends of a connection saw has one line, that of the client."""
        if exchange.tree is not None and exchange.tree.is_other_end:
            return
        self._write(self._lines.exchange(exchange))
        if self._verbosity >= 1:
            if exchange.request is not None:
                self._details(exchange.request, ">")
            for informational in exchange.informational:
                self._details(informational, "<")
            if exchange.response is not None:
                self._details(exchange.response, "<")
            for secret, count in (exchange.redacted or {}).items():
                self._write(f"  * {escape(redacted_text(secret, count))}")
        if self._calls_of is not None:
            for line in self._call_lines.nested(self._calls_of(exchange) or ()):
                self._write(f"    {line}")

    def handshake(self, handshake: Handshake) -> None:
        """See ``Sink``: only failures, unless headers are shown."""
        if handshake.end.is_failure or self._verbosity >= 1:
            self._write(self._lines.handshake(handshake))

    @cached_property
    def _call_lines(self) -> "CallLines":
        from sslsniff.functions.outputs.call_lines import CallLines  # only for --calls: 5 ms

        return CallLines(self._stream, self._paint)

    def message(self, inner: InnerMessage) -> None:
        """See ``Sink``: some messages need ``-v``.

        These are keep-alive messages, pieces of models' answers, and notifications.
        """
        is_piece = inner.exchange is not None and inner.exchange.model_call is not None
        is_minor = is_keepalive(inner.message) or isinstance(inner.message, RpcNotification)
        if (is_piece or is_minor) and not self._verbosity:
            return
        self._write(message_line(inner, self._lines, self._schema))
        if self._verbosity >= 2:
            mark = ">" if inner.message.side is Side.CLIENT else "<"
            for line in content_lines(inner.exchange, inner.message, self._schema):
                self._write(f"  {mark} {line}")

    def unknown(self, connection: Connection, side: Side, first: bytes, time_ns: int) -> None:
        """See ``Sink``."""
        self._undecoded.add(connection, Undecoded(side, first, 0, UNKNOWN_PROTOCOL), time_ns)

    def undecoded(self, connection: Connection, message: Undecoded, time_ns: int) -> None:
        """See ``Sink``."""
        self._undecoded.add(connection, message, time_ns)

    def closed(self, connection: Connection, time_ns: int) -> None:
        """See ``Sink``."""
        self._undecoded.close(connection.id)

    def left_open(self, connection: Connection) -> None:
        """See ``Sink``."""
        self._undecoded.close(connection.id)

    def chunk(self, chunk: Chunk) -> None:
        """See ``Sink``."""
        if chunk.missing and chunk.cause is not None:
            size = counted(chunk.missing, "byte")
            lost = f"lost {size} ({chunk.direction.value}): {chunk.cause.value}"
            start = self._lines.start(chunk.connection, chunk.time_ns)
            self._write(self._lines.fit(start, ("loss", lost)))

    def flush(self) -> None:
        """See ``Sink``."""
        self._stream.flush()
        self._lines.resize()

    def _write(self, line: str) -> None:
        self._stream.write(line + "\n")

    def _details(self, message: Request | Response, mark: str) -> None:
        if isinstance(message, Request):
            head = f"{message.method or '?'} {message.target or '?'}"
        else:
            head = f"{'?' if message.status is None else message.status} {message.reason}".rstrip()
        self._write(f"  {mark} {escape(head)}")
        self._headers(message.headers, mark)
        if self._verbosity >= 2 and message.body.size:
            self._write(f"  {mark}")
            for line in body_lines(message.body, message.headers):
                self._write(f"  {mark} {line}")
        self._headers(message.trailers, mark)

    def _headers(self, headers: list[Header], mark: str) -> None:
        for name, value in headers:
            shown = f"{'?' if name is None else name}: {'?' if value is None else value}"
            self._write(f"  {mark} {self._paint('dim', escape(shown))}")
