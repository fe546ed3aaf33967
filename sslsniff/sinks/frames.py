"""HTTP/2 frames as they pass, a line each, for people."""

from typing import TextIO

from sslsniff.decoders.messages import Frame, StreamMessage
from sslsniff.escaping import escape
from sslsniff.model import Connection, Exchange
from sslsniff.sinks import text
from sslsniff.sinks.base import Sink
from sslsniff.sinks.lines import plain
from sslsniff.sinks.message_lines import message_line
from sslsniff.sinks.proto_fields import Schema, no_schema

_PREVIEW_BYTES = 48


class FrameSink(Sink):
    """Writes each frame to ``stream``, and each message that is complete with it."""

    def __init__(self, stream: TextIO, schema: Schema = no_schema) -> None:
        self._stream = stream
        self._schema = schema

    def frame(self, connection: Connection, frame: Frame, time_ns: int, tid: int) -> None:
        """See ``Sink``."""
        arrow = "->" if frame.side.value == "client" else "<-"
        flags = f" [{' '.join(frame.flags)}]" if frame.flags else ""
        said = " ".join(f"{name}={_shown(value)}" for name, value in frame.details.items())
        self._stream.write(
            f"{text.local_time(time_ns)}  {text.near_end(connection)}"
            f"  {text.address(connection.remote)}  {arrow} #{frame.stream}"
            f" {frame.type}{flags} {frame.length} B  {escape(said)}".rstrip()
            + "\n"
        )

    def message(
        self,
        connection: Connection,
        exchange: Exchange | None,
        message: StreamMessage,
        time_ns: int,
        tid: int,
    ) -> None:
        """See ``Sink``."""
        shown = message_line(connection, exchange, message, time_ns, plain, self._schema)
        self._stream.write(shown + "\n")

    def flush(self) -> None:
        """See ``Sink``."""
        self._stream.flush()


def _shown(value: object) -> str:
    """Return one detail of a frame: bytes as the start of their text, lists as ``name: value``."""
    if isinstance(value, bytes):
        cut = "..." if len(value) > _PREVIEW_BYTES else ""
        return repr(value[:_PREVIEW_BYTES])[1:] + cut
    if isinstance(value, list):
        return "{" + ", ".join(f"{name}: {said}" for name, said in value) + "}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {said}" for name, said in value.items()) + "}"
    return str(value)
