"""The messages of PostgreSQL's protocol: their lengths, parameters and errors."""

import struct

from sslsniff.decoders.databases.postgresql.postgresql_values import value
from sslsniff.decoders.databases.statement import (
    MOST_PARAMETERS,
    MOST_TEXT_BYTES,
    Parameters,
    Prepared,
    shown_text,
)
from sslsniff.decoders.databases.units import NotAUnitError, Unit

CLIENT_KINDS, SERVER_KINDS = b"BCDEFHPQSXcdfp", b"123ACDEGHIKNRSTVWZcdnstv"
"""The kinds of messages, by who sends them."""
_LARGEST = 1 << 30
LONG = struct.Struct(">I")


def measure(data: bytes, at: int, kinds: bytes) -> tuple[int, int] | None:
    """Return the sizes of a message of one of the ``kinds``: see ``units.Measure``."""
    if data[at] not in kinds:
        raise NotAUnitError
    if len(data) - at < 5:
        return None
    size = LONG.unpack_from(data, at + 1)[0]
    if not 4 <= size <= _LARGEST:
        raise NotAUnitError
    return 5, size - 4


def measure_client(data: bytes, at: int) -> tuple[int, int] | None:
    """Return the same for a client's message, which may be one to start up, without a kind."""
    if data[at]:
        return measure(data, at, CLIENT_KINDS)
    if len(data) - at < 4:  # a start-up message has no kind
        return None
    size = LONG.unpack_from(data, at)[0]
    if not 8 <= size <= MOST_TEXT_BYTES:
        raise NotAUnitError
    return 4, size - 4


def are_messages(data: bytes, kinds: bytes) -> bool:
    """Return whether ``data`` begins with a whole message, and another follows, as far as seen."""
    at = 0
    for _ in range(2):
        if at >= len(data):
            return at > 0 and at == len(data)
        try:
            sizes = measure(data, at, kinds)
        except NotAUnitError:
            return False
        if sizes is None:
            return at > 0
        at += sum(sizes)
        if at > len(data):
            return False
    return True


def startup_words(data: bytes) -> dict[str, str]:
    """Return the parameters of a start-up message by their names."""
    words = [shown_text(each) for each in data[4:].split(b"\0")]
    return dict(zip(words[::2], words[1::2], strict=False))


def parsed_statement(unit: Unit) -> tuple[str, Prepared]:
    """Return the name and the statement of a Parse."""
    name, _, rest = unit.data.partition(b"\0")
    raw, _, types = rest.partition(b"\0")
    count = int.from_bytes(types[:2], "big")
    kinds = struct.unpack_from(f">{count}I", types, 2) if len(types) >= 2 + 4 * count else ()
    size = unit.size - len(name) - 4 - 4 * count
    return shown_text(name), Prepared(shown_text(raw), size, kinds)


def bound_parameters(data: bytes, kinds: tuple[int, ...]) -> Parameters | None:
    """Return the parameters of a Bind, None if they are cut."""
    try:
        (count,) = struct.unpack_from(">H", data)
        formats = struct.unpack_from(f">{count}H", data, 2)
        at = 2 + 2 * count
        (count,) = struct.unpack_from(">H", data, at)
        at += 2
        found: Parameters = []
        for number in range(min(count, MOST_PARAMETERS)):
            (size,) = struct.unpack_from(">i", data, at)
            at += 4
            if size < 0:
                found.append(None)
                continue
            raw = data[at : at + size]
            binary = formats[number if len(formats) > 1 else 0] == 1 if formats else False
            found.append(value(raw, binary, kinds[number] if number < len(kinds) else 0))
            at += size
    except (struct.error, IndexError):
        return None
    return found


def error_fields(data: bytes) -> tuple[str | None, str]:
    """Return the SQLSTATE and the message of an ErrorResponse."""
    fields = {each[:1]: shown_text(each[1:]) for each in data.split(b"\0") if each}
    return fields.get(b"C"), fields.get(b"M", "")
