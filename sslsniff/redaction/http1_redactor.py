"""Redaction of an HTTP/1 connection: the decoder says what the bytes are, slice by slice."""

import re

from sslsniff.decoders.decoder import Switch
from sslsniff.decoders.http1.framing import ReadState
from sslsniff.decoders.http1.head import WELL_KNOWN_METHODS
from sslsniff.decoders.http1.http1_decoder import Http1Decoder
from sslsniff.decoders.http1.message_reader import MessageReader
from sslsniff.decoders.messages import (
    Aborted,
    BodyData,
    Message,
    MessageEnd,
    RequestHead,
    ResponseHead,
    Side,
    in_pieces,
)
from sslsniff.redaction.pending_bytes import PendingBytes
from sslsniff.redaction.rules import Rules, Span
from sslsniff.redaction.text_run import Run, is_opaque

# A request's first word, if it may have the end of another request's body before the method.
_UNSURE_METHOD = re.compile(rb"\s*(?!(?:" + WELL_KNOWN_METHODS + rb") )(?P<word>\S+)")
_BODY = {ReadState.FIXED, ReadState.CHUNK_DATA, ReadState.UNTIL_CLOSE}


class _Http1Side:
    """One side: where the text begins that is not decided, and the body at hand."""

    def __init__(self, buffer: PendingBytes, reader: MessageReader) -> None:
        self.buffer = buffer
        self.reader = reader
        self.text = buffer.end  # bytes of heads and framing from here on wait
        self.waiting = bytearray()
        self.body: Run | None = None
        self.is_cut = buffer.is_joined or buffer.end > 0
        """Whether the first bytes may be the end of what was not seen."""

    def give_up(self) -> None:
        """See ``pending_bytes.PendingReader``: blank what waits; the decoder gives up by itself."""
        self.drop(len(self.waiting))

    def drop(self, count: int) -> None:
        """Blank so many bytes of what waits."""
        self.buffer.blank(self.text, self.text + count)
        self.settle(count)

    def settle(self, count: int) -> None:
        """Note that so many bytes of what waits are decided."""
        del self.waiting[:count]
        self.text += count
        if self.waiting:
            self.buffer.holds[self] = self.text
        else:
            self.buffer.holds.pop(self, None)


class Http1Redactor:
    """Blanks on the buffers of both sides, until ``switch`` says that another protocol follows.

    Memory: a head for each side, and the decoder's own.
    """

    def __init__(self, buffers: dict[Side, PendingBytes], rules: Rules) -> None:
        self._rules = rules
        self._decoder = Http1Decoder()
        self._sides = {side: _Http1Side(buffers[side], self._decoder.reader(side)) for side in Side}

    @property
    def switch(self) -> Switch | None:
        """See ``Http1Decoder``."""
        return self._decoder.switch

    def feed(self, side: Side, data: bytes, at: int) -> int:
        """Feed the next bytes of ``side``, at ``at`` on its buffer; return how many were read.

        What follows a switch of protocols belongs to the next one.
        """
        one = self._sides[side]
        pos = 0
        while pos < len(data) and self.switch is None:
            before = one.reader.state
            piece = data[pos : pos + _slice(one.reader, data, pos)]
            if not one.waiting:
                one.text = at + pos
            messages = list(in_pieces(self._decoder.feed(side, piece)))
            self._heads(messages)
            body = sum(
                len(each.data)
                for each in messages
                if isinstance(each, BodyData) and each.side is side
            )
            pos += len(piece)
            one.waiting += piece
            text = max(0, len(one.waiting) - body)  # a body is what comes last in a slice
            found = bytes(one.waiting[text:])
            del one.waiting[text:]
            self._text(one, before)
            if one.body is not None:
                one.body.feed(found, at + pos - len(found))
            self._ends(messages)
        return pos

    def gap(self, side: Side, missing: int) -> None:
        """Note lost bytes; the rest of the same body is blanked."""
        one = self._sides[side]
        one.give_up()
        if one.body is not None:
            one.body.give_up()
        self._ends(list(in_pieces(self._decoder.gap(side, missing))))

    def end(self, side: Side) -> None:
        """Take the end of a direction."""
        one = self._sides[side]
        one.give_up()
        if one.body is not None:
            one.body.end()
        self._decoder.end(side)  # what it holds is free at once, not when its cycle is collected

    def _text(self, one: _Http1Side, before: ReadState) -> None:
        """Decide on heads and framing as far as the decoder has."""
        state = one.reader.state
        if state is ReadState.TRAILERS:
            one.settle(0)
            return
        decided = max(0, len(one.waiting) - len(one.reader.buffer))
        if ReadState.SCAN in (before, state) or before is ReadState.WAIT:
            # Out of sync, or whose bytes these are is open: in the middle of anything.
            decided = len(one.waiting) if before is ReadState.WAIT else decided
            self._rules.blanked.unread_bytes += decided
            one.drop(decided)
            return
        spans = self._rules.find_in_head(one.waiting[:decided])
        if one.is_cut and one is self._sides[Side.CLIENT]:
            spans += _unsure_method(one.waiting[:decided])
        one.is_cut = one.is_cut and not decided
        self._rules.blanked.secrets += len(spans)
        for start, stop in spans:
            one.buffer.blank(one.text + start, one.text + stop)
        one.settle(decided)

    def _heads(self, messages: list[Message]) -> None:
        for message in messages:
            if isinstance(message, RequestHead | ResponseHead):
                side = Side.CLIENT if isinstance(message, RequestHead) else Side.SERVER
                one = self._sides[side]
                one.body = Run(one.buffer, self._rules, is_blind=is_opaque(message.headers))

    def _ends(self, messages: list[Message]) -> None:
        for message in messages:
            if isinstance(message, MessageEnd | Aborted):
                one = self._sides[message.side]
                if one.body is not None:
                    one.body.end()
                    one.body = None


def _unsure_method(head: bytearray) -> list[Span]:
    found = _UNSURE_METHOD.match(head)
    return [found.span("word")] if found else []


def _slice(reader: MessageReader, data: bytes, pos: int) -> int:
    """Return how many of the bytes to give to ``reader``: those of which it knows what they are."""
    if reader.state is ReadState.DOUBT:
        return 1
    if reader.state in _BODY:
        return reader.body_remaining if reader.state is not ReadState.UNTIL_CLOSE else len(data)
    line = data.find(b"\n", pos)
    return line + 1 - pos if line >= 0 else len(data)
