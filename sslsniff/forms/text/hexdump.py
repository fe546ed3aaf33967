"""Writes raw chunks as hexadecimal and ASCII, for people."""

from typing import TextIO

from sslsniff.core.errors import counted
from sslsniff.core.escaping import escape
from sslsniff.core.model import Chunk
from sslsniff.core.sink import Sink
from sslsniff.forms.text import pieces

_WIDTH = 16
_PRINTABLE = bytes(byte if 0x20 <= byte < 0x7F else 0x2E for byte in range(256))


class HexdumpSink(Sink):
    """Writes each chunk to ``stream``: a line that says where it belongs, then its bytes."""

    wants_messages = False
    wants_plaintext = True

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def chunk(self, chunk: Chunk) -> None:
        """See ``Sink``."""
        connection = chunk.connection
        what = counted(chunk.missing or len(chunk.data), "byte") + " lost before" * bool(
            chunk.missing
        )
        self._stream.write(
            f"{pieces.local_time(chunk.time_ns)}  {pieces.near_end(connection)}"
            f"  {escape(pieces.far_end(connection))}  {connection.id}"
            f"  {chunk.direction.value} {what} at {chunk.offset}\n"
        )
        self._stream.writelines(f"  {line}\n" for line in hexdump(chunk.data, chunk.offset))

    def flush(self) -> None:
        """See ``Sink``."""
        self._stream.flush()


def hexdump(data: bytes, offset: int = 0) -> list[str]:
    """Return lines of 16 bytes each: offset, hexadecimal, ASCII."""
    lines = []
    for start in range(0, len(data), _WIDTH):
        row = data[start : start + _WIDTH]
        ascii_text = row.translate(_PRINTABLE).decode("ascii")
        lines.append(f"{offset + start:08x}  {row.hex(' ', 1):<{3 * _WIDTH - 1}}  {ascii_text}")
    return lines
