"""Redacts an HTTP/1 connection: the decoder says what the bytes are, slice by slice."""

import re

from sslsniff.core.redacted import NO_MESSAGE, MessageKey
from sslsniff.decoders.decoder import Switch
from sslsniff.decoders.http1.framing import ReadState
from sslsniff.decoders.http1.http1_decoder import Http1Decoder
from sslsniff.decoders.http1.message_reader import MessageReader
from sslsniff.decoders.http1.start_lines import WELL_KNOWN_METHODS
from sslsniff.decoders.messages import (
    SIDES,
    Aborted,
    BodyData,
    Headers,
    Message,
    MessageEnd,
    RequestHead,
    ResponseHead,
    Side,
    in_pieces,
)
from sslsniff.redaction.pending_bytes import PendingBytes
from sslsniff.redaction.rules import Rules
from sslsniff.redaction.text_run import TextRun

# What is before a request's target, if the end of other bytes may be before the method.
_UNSURE_METHOD = re.compile(
    rb"\s*(?!(?:" + WELL_KNOWN_METHODS + rb") )(?P<word>[^\r\n]*\S(?=[ \t]+\S+[ \t]+HTTP/\d)|\S+)"
)
_WHOLE_HEAD = re.compile(
    rb"(?:(?:" + WELL_KNOWN_METHODS + rb") [!-~]+ HTTP/1\.[01]|HTTP/1\.[01] [1-5]\d\d(?: [ -~]*)?)"
    rb"\r\n(?:[!-9;-~][^\r\n]*\r\n)*\r\n"
)
"""A head of usual lines: the decoder reads it as it would read each of its lines."""
_BODY = {ReadState.FIXED, ReadState.CHUNK_DATA, ReadState.UNTIL_CLOSE}
_MAY_BEGIN = {ReadState.HEAD, ReadState.DOUBT, ReadState.EXPECT, ReadState.REFUSED}
"""The states in which a message may begin."""
_MESSAGES = {Side.CLIENT: "request", Side.SERVER: "response"}


class _Http1Side:
    """One side: bytes of heads and framing that wait for the decoder, and the current body."""

    def __init__(self, side: Side, buffer: PendingBytes, reader: MessageReader) -> None:
        self.message = _MESSAGES[side]
        self.buffer = buffer
        self.reader = reader
        self.begin_at = -1  # where the current message begins in the buffer
        self.place: MessageKey = NO_MESSAGE
        self.waiting = bytearray()
        self.waiting_at = buffer.end  # its position in the buffer
        self.headers: Headers | None = None  # of the current message
        self.body: TextRun | None = None  # from its first byte on, or from a loss on
        self.is_cut = buffer.is_joined or buffer.end > 0
        """Whether the first bytes may be the rest of a message whose start was not seen."""

    def blank_undecided(self) -> None:
        """See ``pending_bytes.PendingReader``; the decoder has a limit of its own."""
        self.blank(len(self.waiting))

    def blank(self, count: int) -> None:
        """Blank the first ``count`` bytes that wait."""
        self.buffer.blank(self.waiting_at, self.waiting_at + count)
        self.release(count)

    def release(self, count: int) -> None:
        """Note that the first ``count`` bytes that wait are decided."""
        del self.waiting[:count]
        self.waiting_at += count
        if self.waiting:
            self.buffer.undecided[self] = self.waiting_at
        else:
            self.buffer.undecided.pop(self, None)


class Http1Redactor:
    """Blanks secrets in the buffers of both sides, until ``switch`` names another protocol.

    Memory: a head for each side, and the decoder's own.
    """

    def __init__(self, buffers: dict[Side, PendingBytes], rules: Rules) -> None:
        self._rules = rules
        self._decoder = Http1Decoder()
        self._sides = {
            side: _Http1Side(side, buffers[side], self._decoder.reader(side)) for side in SIDES
        }

    @property
    def switch(self) -> Switch | None:
        """See ``Http1Decoder``."""
        return self._decoder.switch

    def feed(self, side: Side, data: bytes, at: int) -> int:
        """Feed the next bytes of ``side``, at ``at`` in its buffer; return how many were read.

        Bytes after a switch of protocols are not read: they belong to the next sender.
        """
        sender = self._sides[side]
        pos = 0
        while pos < len(data) and self.switch is None:
            before = sender.reader.state
            was_refused = self._is_refused
            size = _slice(sender.reader, data, pos, has_begun=bool(sender.waiting))
            piece = data[pos : pos + size]
            if not sender.waiting:
                sender.waiting_at = at + pos
                if before in _MAY_BEGIN:
                    sender.begin_at = at + pos
                    sender.place = 0, sender.buffer.offset(at + pos)
            messages = list(in_pieces(self._decoder.feed(side, piece)))
            self._begin_bodies(messages)
            if was_refused and side is Side.SERVER and not self._is_refused:
                # The answer decided what the client's bytes are: too late to find secrets in them.
                self._blank_unread(self._sides[Side.CLIENT])
            body_bytes = sum(
                len(message.data)
                for message in messages
                if isinstance(message, BodyData) and message.side is side
            )
            pos += len(piece)
            sender.waiting += piece
            head_bytes = max(0, len(sender.waiting) - body_bytes)  # a body is last in a slice
            body = bytes(sender.waiting[head_bytes:])
            del sender.waiting[head_bytes:]
            self._redact_heads(sender, before)
            if body and (run := self._body(sender)) is not None:
                run.feed(body, at + pos - len(body))
            self._end_bodies(messages)
        return pos

    def gap(self, side: Side, missing: int) -> None:
        """Note lost bytes; the rest of the same body is blanked."""
        sender = self._sides[side]
        sender.blank_undecided()
        run = self._body(sender)
        if run is not None:
            run.blank_undecided()
        self._end_bodies(list(in_pieces(self._decoder.gap(side, missing))))

    def end(self, side: Side) -> None:
        """End a direction: decide on the bytes that wait."""
        sender = self._sides[side]
        sender.blank_undecided()
        if sender.body is not None:
            sender.body.end(is_whole=False)
        self._decoder.end(side)  # frees its memory at once, not when its cycle is collected

    def _redact_heads(self, sender: _Http1Side, before: ReadState) -> None:
        """Blank secrets in heads and framing, as far as the decoder has decided on them."""
        state = sender.reader.state
        if state is ReadState.TRAILERS:
            sender.release(0)
            return
        decided = max(0, len(sender.waiting) - len(sender.reader.buffer))
        if before is ReadState.WAIT or (
            # Decided at once, they are all the next head, or all the body.
            before is ReadState.REFUSED is not state and decided > 0
        ):
            self._blank_unread(sender)
            return
        if ReadState.SCAN in (before, state):
            # Out of sync: they may be in a secret.
            self._rules.blanked.unread_bytes += decided
            sender.blank(decided)
            return
        if decided:
            self._blank_head(sender, sender.waiting[:decided])
        sender.release(decided)

    def _blank_head(self, sender: _Http1Side, head: bytearray) -> None:
        """Blank secrets in the head of a message, in its trailers or in framing."""
        first_line = unsure_to = 0
        if sender.waiting_at == sender.begin_at:
            first_line = head.find(b"\n", 2) + 1  # an empty line may be before it
        if sender.is_cut and sender is self._sides[Side.CLIENT]:
            unsure_to = self._blank_unsure_method(sender, head)
        sender.is_cut = False
        for start, stop, secrets in self._rules.mark_in_head(head, sender.message, first_line):
            at = sender.waiting_at + start
            sender.buffer.blank(at, sender.waiting_at + stop)
            if start >= unsure_to:
                sender.buffer.mark(at, sender.place, secrets)

    def _blank_unsure_method(self, sender: _Http1Side, head: bytearray) -> int:
        """Blank what is before a target, if it may be the end of another message; return its end.

        What is blanked here is not marked as secrets: names may be in it, too.
        """
        found = _UNSURE_METHOD.match(head)
        if found is None:
            return 0
        start, stop = found.span("word")
        sender.buffer.blank(sender.waiting_at + start, sender.waiting_at + stop)
        self._rules.blanked.unread_bytes += stop - start
        return stop

    @property
    def _is_refused(self) -> bool:
        return self._sides[Side.CLIENT].reader.state is ReadState.REFUSED

    def _blank_unread(self, sender: _Http1Side) -> None:
        """Blank all that waits: it is not known to which message it belongs."""
        self._rules.blanked.unread_bytes += len(sender.waiting)
        sender.blank_undecided()

    def _begin_bodies(self, messages: list[Message]) -> None:
        for message in messages:
            if isinstance(message, RequestHead | ResponseHead):
                side = Side.CLIENT if isinstance(message, RequestHead) else Side.SERVER
                self._sides[side].headers = message.headers
                self._sides[side].body = None

    def _body(self, sender: _Http1Side) -> TextRun | None:
        """Return the body of the current message; None if there is no message."""
        if sender.body is None and sender.headers is not None:
            sender.body = TextRun(
                sender.buffer,
                self._rules,
                sender.headers,
                where=f"{sender.message} body",
                message=sender.place,
            )
        return sender.body

    def _end_bodies(self, messages: list[Message]) -> None:
        for message in messages:
            if isinstance(message, MessageEnd | Aborted):
                sender = self._sides[message.side]
                if sender.body is not None:
                    sender.body.end(is_whole=isinstance(message, MessageEnd))
                sender.body = sender.headers = None


def _slice(reader: MessageReader, data: bytes, pos: int, *, has_begun: bool) -> int:
    """Return how many bytes to feed to ``reader``: those of which it knows what they are.

    ``has_begun``: whether bytes before wait for these.
    """
    if reader.state is ReadState.HEAD and not has_begun:
        head = _WHOLE_HEAD.match(data, pos)
        if head is not None:
            return head.end() - pos
    state = reader.framing.expected if reader.state is ReadState.EXPECT else reader.state
    if state in (ReadState.DOUBT, ReadState.REFUSED):
        return 1
    if state in _BODY:
        return reader.body_remaining if state is not ReadState.UNTIL_CLOSE else len(data)
    line = data.find(b"\n", pos)
    return line + 1 - pos if line >= 0 else len(data)
