"""Tells from bytes alone who sent them: the client or the server."""

import re
import struct

from sslsniff.decoders.http1.head import find_start, parse_start_line
from sslsniff.decoders.http1.start_lines import begins_start
from sslsniff.decoders.http2.frames import (
    END_HEADERS,
    HEADER_SIZE,
    HEADERS,
    PREFACE,
    PUSH_PROMISE,
    SETTINGS,
    strip,
)
from sslsniff.decoders.http2.hpack import HpackDecoder
from sslsniff.decoders.http2.sync import FrameSync, frame_length
from sslsniff.decoders.inner.websocket import frames_sender
from sslsniff.decoders.messages import SIDES, Side

_ENABLE_PUSH = 2  # a setting (RFC 9113 section 6.5.2)

# The first word of a start line: a method (RFC 9110 section 5.6.2), or a version.
_FIRST_WORD = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z/-]+\s")


def guess_sender(data: bytes, *, is_beginning: bool = False) -> Side | None:
    """Return the side that sent these bytes; None if they do not show it.

    The bytes may begin in the middle of a message: the first start of a message in them decides.
    ``is_beginning``: they are the first of a side, and only their own start counts.
    """
    if PREFACE.startswith(data[: len(PREFACE)]) and len(data) >= len("PRI"):
        return Side.CLIENT
    if is_beginning:
        begun = next((side for side in SIDES if begins_start(side, data)), None)
        if begun is None and frame_length(data, 0) >= 0:
            return _frames_sender(data, 0)
        return begun or frames_sender(data)
    line = data.lstrip(b"\r\n").split(b"\n", 1)[0].removesuffix(b"\r")
    for side in SIDES:
        if parse_start_line(side, line) is not None:
            return side
    sync = FrameSync()
    found = sync.feed(data)
    if found is None and frame_length(data, 0) >= 0:
        found = (0, len(data))
    if found is not None:
        return _frames_sender(data, found[0])
    starts = [(find_start(side, data, 0), side) for side in SIDES]
    proven = [(start, side) for start, side in starts if start is not None]
    return min(proven, key=lambda found: found[0])[1] if proven else frames_sender(data)


def starts_message(data: bytes) -> bool:
    """Return whether these bytes begin with a message or an HTTP/2 frame."""
    if data.startswith(PREFACE):
        return True
    if _FIRST_WORD.match(data):
        line = data[:4096].split(b"\n", 1)[0].removesuffix(b"\r")
        if any(parse_start_line(side, line) is not None for side in SIDES):
            return True
    length = frame_length(data, 0)
    if length < 0:
        return False
    after = HEADER_SIZE + length
    return after + HEADER_SIZE > len(data) or frame_length(data, after) >= 0


def _frames_sender(data: bytes, at: int) -> Side | None:
    """Return the sender by frames that only one side sends (RFC 9113 sections 6.6 and 8.3).

    SETTINGS at first are a server's, as a client's follow its preface (section 3.4): unless that
    was not captured, which later frames or the settings show.
    """
    sender = _settings_sender(data) if at == 0 else None
    while (length := frame_length(data, at)) >= 0:
        kind, flags = data[at + 3], data[at + 4]
        payload = data[at + HEADER_SIZE : at + HEADER_SIZE + length]
        if kind == PUSH_PROMISE:
            return Side.SERVER
        if kind == HEADERS and flags & END_HEADERS and len(payload) == length:
            fields, _ = HpackDecoder().decode(strip(kind, flags, payload) or b"")
            names = {name for name, _ in fields}
            if ":status" in names:
                return Side.SERVER
            if names & {":method", ":path", ":scheme", ":authority"}:
                return Side.CLIENT
        at += HEADER_SIZE + length
    return sender


def _settings_sender(data: bytes) -> Side | None:
    """Return who sent the SETTINGS at the beginning; None: there are none, or of either side.

    Only a client allows pushes; servers need not forbid them, but some do (section 6.5.2).
    """
    length = frame_length(data, 0)
    if length < 0 or data[3] != SETTINGS or data[4]:
        return None
    pairs = data[HEADER_SIZE : HEADER_SIZE + length]
    settings = dict(struct.iter_unpack(">HI", pairs[: len(pairs) // 6 * 6]))
    if _ENABLE_PUSH not in settings:
        return Side.SERVER
    return Side.CLIENT if settings[_ENABLE_PUSH] == 1 else None
