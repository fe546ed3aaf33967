"""Text by its address."""

import codecs
from collections.abc import Callable

from sslsniff.fetching.fetch import FetchLimits, ValueDecoder
from sslsniff.fetching.traced_values import FollowedPointer, Missing, PointerValue, Text, Value
from sslsniff.functions.values.fetch_program import FetchProgram
from sslsniff.functions.values.raw_values import RawValue, always, from_bytes, number_reader

_FEWEST_CHARACTERS = 2


def text_to_zero(program: FetchProgram, raw: RawValue, limits: FetchLimits) -> ValueDecoder:
    """Read the text of C to which the pointer at ``raw`` leads."""
    # One byte more than is shown says that the text goes on, and one is for the zero byte.
    most_bytes = limits.text_bytes
    there = program.follow_text(raw, most_bytes + 2)
    read = number_reader(raw)
    missing = raw.problem or Missing.UNREADABLE
    is_text_missing = there.problem is not None
    start, end, items = there.start, there.end, there.items

    def decode_text(data: bytes, failed: int, /) -> Value:
        number = read(data, failed)
        if not number:
            return None if number == 0 else missing
        if is_text_missing or failed & items:
            return PointerValue(number, "char")
        text = data[start:end].partition(b"\0")[0]
        if len(text) > most_bytes:
            return Text(shown_text(text[:most_bytes], is_whole=False), -1)
        return Text(text.decode("utf-8", "replace"))

    return decode_text


def shown_text(data: bytes, *, is_whole: bool = True) -> str:
    """Return UTF-8 as text; one that is not whole may end within a character."""
    if is_whole:
        return data.decode("utf-8", "replace")
    return codecs.getincrementaldecoder("utf-8")("replace").decode(data, final=is_whole)


def sized_text(
    program: FetchProgram,
    address: RawValue,
    count: RawValue,
    limits: FetchLimits,
    offset: int = 0,
) -> ValueDecoder:
    """Read a text whose length in bytes is at ``count``; it is at the address plus ``offset``."""
    most = limits.text_bytes

    def make() -> ValueDecoder:
        there = program.follow_items(address, count, 1, most, offset)
        return counted(count, lambda total: _sized_text(there, total, most))

    return program.later(make)


def _sized_text(there: RawValue, total: int, most: int) -> ValueDecoder:
    if not total:
        return always(Text(""))
    shown = min(total, most)
    return from_bytes(
        there,
        lambda data: Text(shown_text(data[:shown], is_whole=shown == total), total - shown),
    )


def counted(count: RawValue, decoder_for: Callable[[int], ValueDecoder]) -> ValueDecoder:
    """Return a decoder that is made for the number at ``count``."""
    read = number_reader(count)
    missing = count.problem

    def decode(data: bytes, failed: int, /) -> Value:
        total = read(data, failed)
        if total is None:
            return missing or Missing.UNREADABLE
        return decoder_for(total)(data, failed)

    return decode


def text_array(raw: RawValue, count: int, fetched: int) -> ValueDecoder:
    """Read an array of ``count`` characters up to the first zero; ``fetched`` of them are there."""

    def decode(data: bytes) -> Text:
        text, zero, _ = data.partition(b"\0")
        is_whole = bool(zero) or fetched == count
        return Text(shown_text(text, is_whole=is_whole), 0 if is_whole else -1)

    return from_bytes(raw.part(0, fetched), decode)


def number_or_text(number: ValueDecoder, text: ValueDecoder) -> ValueDecoder:
    """Return a decoder of a number, with the text to which it leads if that is text.

    Static probes have no types: a string is a number of 8 bytes.
    """

    def decode(data: bytes, failed: int, /) -> Value:
        value, pointed = number(data, failed), text(data, failed)
        if not isinstance(value, int) or isinstance(value, Missing):
            return value
        is_text = (
            isinstance(pointed, Text)
            and len(pointed.text) >= _FEWEST_CHARACTERS
            and all(each.isprintable() or each in "\t\r\n" for each in pointed.text)
        )
        return FollowedPointer(value, pointed) if is_text else value

    return decode
