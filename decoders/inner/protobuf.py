"""Reads the fields of a protobuf message without its schema (protobuf.dev, "Encoding").

Text, bytes and messages have the same encoding. A value that is valid text counts as text, else
one that is a valid message to its end as a message, else as bytes.
"""

from dataclasses import dataclass

_MAX_DEPTH = 32
_MAX_FIELDS = 10_000
_MAX_NUMBER = (1 << 29) - 1
_VARINT_BYTES = 10

_TEXT_CONTROLS = "\t\n\r"
_FIXED = {1: ("fixed64", 8), 5: ("fixed32", 4)}
_LENGTH = 2
_GROUP, _GROUP_END = 3, 4


@dataclass(frozen=True, slots=True)
class ProtobufField:
    """A field: its number, its kind and its value.

    ``varint``, ``fixed64`` and ``fixed32`` are unsigned numbers; ``text``, ``bytes`` and
    ``message`` have one wire type; ``group`` has a list of fields, as ``message`` has.
    """

    number: int
    kind: str
    value: "int | bytes | str | list[ProtobufField]"


class _NotProtobuf(Exception):
    pass


def parse(data: bytes) -> list[ProtobufField] | None:
    """Return the fields, in order; None if ``data`` is no message or has over 10,000 fields.

    Messages nested over 32 deep are returned as bytes.
    """
    try:
        return _MessageParser(data).message(0, len(data), 0)
    except _NotProtobuf:
        return None


class _MessageParser:
    """Parses one message. Fields at any depth count, also those of values that are bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._count = 0

    def message(self, at: int, stop: int, depth: int) -> list[ProtobufField]:
        return self._fields(at, stop, depth, 0)[0]

    def _fields(
        self, at: int, stop: int, depth: int, group: int
    ) -> tuple[list[ProtobufField], int]:
        """Read up to ``stop``, or to the end of ``group``."""
        fields: list[ProtobufField] = []
        while at < stop:
            tag, at = self._varint(at, stop)
            number, wire_type = tag >> 3, tag & 7
            self._count += 1
            if not 0 < number <= _MAX_NUMBER or self._count > _MAX_FIELDS:
                raise _NotProtobuf
            if wire_type == _GROUP_END and number == group:
                return fields, at
            field, at = self._field(number, wire_type, at, stop, depth)
            fields.append(field)
        if group:
            raise _NotProtobuf
        return fields, at

    def _field(
        self, number: int, wire_type: int, at: int, stop: int, depth: int
    ) -> tuple[ProtobufField, int]:
        if wire_type == 0:
            value, at = self._varint(at, stop)
            return ProtobufField(number, "varint", value), at
        if wire_type in _FIXED:
            kind, size = _FIXED[wire_type]
            if at + size > stop:
                raise _NotProtobuf
            return ProtobufField(
                number, kind, int.from_bytes(self._data[at : at + size], "little")
            ), at + size
        if wire_type == _LENGTH:
            length, at = self._varint(at, stop)
            if length > stop - at:
                raise _NotProtobuf
            return self._delimited(number, at, at + length, depth), at + length
        if wire_type == _GROUP and depth < _MAX_DEPTH:
            members, at = self._fields(at, stop, depth + 1, number)
            return ProtobufField(number, "group", members), at
        raise _NotProtobuf

    def _delimited(self, number: int, at: int, stop: int, depth: int) -> ProtobufField:
        value = self._data[at:stop]
        shown = as_text(value)
        if shown is not None:
            return ProtobufField(number, "text", shown)
        if depth < _MAX_DEPTH:
            try:
                return ProtobufField(number, "message", self.message(at, stop, depth + 1))
            except _NotProtobuf:
                if self._count > _MAX_FIELDS:
                    raise
        return ProtobufField(number, "bytes", value)

    def _varint(self, at: int, stop: int) -> tuple[int, int]:
        value = shift = 0
        for place in range(at, min(stop, at + _VARINT_BYTES)):
            byte = self._data[place]
            value |= (byte & 127) << shift
            if byte < 128:
                # Longer than it need be, or over 64 bits: no encoder writes that.
                if (not byte and shift) or value >> 64:
                    break
                return value, place + 1
            shift += 7
        raise _NotProtobuf


def as_text(data: bytes) -> str | None:
    """Return ``data`` as text if it is UTF-8 without control characters, else None."""
    try:
        shown = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    plain = shown.translate(_WITHOUT_SPACES)
    return shown if plain.isprintable() else None


_WITHOUT_SPACES = {ord(char): None for char in _TEXT_CONTROLS}
