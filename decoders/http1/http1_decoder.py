"""Decodes HTTP/1.0 and HTTP/1.1 (RFC 9112), and pairs requests and responses by their order.

Each side has a :class:`~sslsniff.decoders.http1.message_reader.MessageReader` for the framing. This
module decides what needs both sides: which request a response answers, hence whether it has a body,
and whether the connection continues as HTTP/1.

The number of messages in a loss is unknown. A client that does not pipeline sends its next request
after the response to the last, so at most one request waits, and pairs are certain again at once.
If more requests wait, none of them is paired: no pair is better than a wrong one.

Memory per connection: two readers (up to 1.1 MiB each) and ``_MAX_WAITING`` records of 150 bytes.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from sslsniff.decoders.decoder import CLOSED, Switch
from sslsniff.decoders.http1.body_states import BYTES_LOST
from sslsniff.decoders.http1.framing import Framing, Pairing, ReadState
from sslsniff.decoders.http1.head import Fields, StatusHead
from sslsniff.decoders.http1.known_heads import parse_request, parse_response
from sslsniff.decoders.http1.message_reader import MessageReader
from sslsniff.decoders.messages import (
    Aborted,
    Message,
    RequestHead,
    ResponseHead,
    Side,
    Undecoded,
)

_MAX_WAITING = 4096
"""Requests that wait for a response, as many as streams of HTTP/2; beyond, the oldest ends."""

_WAITING_BYTES = 150  # memory of one of them

_FRAMING_METHODS = frozenset(("HEAD", "CONNECT"))  # the response's framing depends on them
_IN_DOUBT = "may answer another request: messages were lost between pipelined ones"

# Looking up a member of an enum takes time.
_CLIENT, _SERVER = Side.CLIENT, Side.SERVER
_HEAD, _WAIT = ReadState.HEAD, ReadState.WAIT
_EXPECT, _REFUSED = ReadState.EXPECT, ReadState.REFUSED
_UNTIL_CLOSE = ReadState.UNTIL_CLOSE

_NO_BODY = Framing(_HEAD, 0)
_INFORMATIONAL = Framing(_HEAD)
_SWITCHES = Framing(_HEAD, 0, switch=True)


@dataclass(slots=True)
class _WaitingRequest:
    """A request that waits for its response."""

    stream: int
    method: str = ""
    """Empty if the response's framing does not depend on it."""
    upgrade: str | None = None
    is_next: bool = True
    """Whether no lost request can be between it and the waiting request before it."""
    responses_ahead: int = 0
    """Responses that come before its own, to older requests that were aborted."""


class Http1Decoder:
    """Decodes one HTTP/1 connection, from its start or from its middle.

    When the connection leaves HTTP/1, it sets ``switch``, which has the protocol and the bytes
    received after that point, and calls ``switched`` with it and with the list for the next
    decoder's messages. Then the caller has to feed another decoder.
    """

    protocol = "http/1.1"
    growth = 32  # trailers of three bytes each

    def __init__(
        self, switched: Callable[[Switch, list[Message]], None] = lambda switch, out: None
    ) -> None:
        self.switch: Switch | None = None
        self._on_switch = switched
        self._requests = MessageReader(
            _CLIENT,
            Pairing(
                self._request,
                self._after_switch_request,
                self._requests_missing,
                lambda _out: None,  # a request does not run until the connection closes
            ),
        )
        self._responses = MessageReader(
            _SERVER,
            Pairing(
                self._response,
                self._after_switch_response,
                self._responses_missing,
                self._last_response,
            ),
        )
        self._has_last_response = False  # one that runs until the connection closes
        self._streams = 0
        self._waiting: deque[_WaitingRequest] = deque()
        self._requests_lost = self._responses_lost = False
        self._doubtful = False  # pairs may be wrong: the client pipelines, and messages were lost
        self._next: Switch | None = None  # until its pending bytes are known

    def feed(self, side: Side, data: bytes) -> list[Message]:
        """Feed the next bytes that ``side`` sent."""
        out: list[Message] = []
        if self.switch is not None:
            return [Undecoded(side, data, len(data), "after a switch of protocols")]
        if side is _CLIENT:
            self._responses.in_chunks = False
            self._requests.feed(data, out)
        else:
            self._requests.in_chunks = False
            self._responses.feed(data, out)
        if self._next is not None:
            self._hand_over(self._next, out)
        return out

    def gap(self, side: Side, missing: int) -> list[Message]:
        """Note lost bytes; a gap of no bytes is none."""
        out: list[Message] = []
        if missing > 0 and self.switch is None:
            self.reader(side).gap(missing, out)
        return out

    @property
    def held_bytes(self) -> int:
        """See ``Decoder``."""
        waiting = _WAITING_BYTES * len(self._waiting)
        return self._requests.held_bytes + self._responses.held_bytes + waiting

    @property
    def is_idle(self) -> bool:
        """Whether no request waits for its response, and no byte waits for the next ones."""
        return not self.held_bytes

    def end(self, side: Side, reason: str = CLOSED) -> list[Message]:
        """End a side; a server that ends leaves the waiting requests without a response."""
        out: list[Message] = []
        self.reader(side).end(out, reason)
        if side is _SERVER:
            for waiting in self._waiting:
                out.append(Aborted(waiting.stream, side, reason))
            self._waiting.clear()
        return out

    def reader(self, side: Side) -> MessageReader:
        """Return the reader of a side, which says what its next bytes are."""
        return self._requests if side is _CLIENT else self._responses

    # Callbacks of the readers.

    def _after_switch_request(self, stream: int) -> ReadState:
        """Return the state after a request to switch: wait until the response decides."""
        if self._has_last_response:
            return ReadState.AFTER_LAST
        # If responses were lost, the one to this request may be lost, too.
        if self._responses_lost:
            return _HEAD
        # The reader stops after this request, so this is the last one that waits.
        waits = any(waiting.stream == stream for waiting in reversed(self._waiting))
        return _WAIT if waits else _HEAD

    def _after_switch_response(self, _stream: int) -> ReadState:
        return ReadState.SWITCHED

    def _requests_missing(self, out: list[Message]) -> None:
        """Note that requests may be missing, so that later ones are not paired wrongly."""
        self._requests_lost = True
        if self._has_last_response:
            self._requests.finish(out)

    def _responses_missing(self, out: list[Message]) -> None:
        """Note that responses may be missing, see ``_requests_missing``."""
        self._responses_lost = True
        self._requests.refuse(self._requests.stream)  # that response may be among the lost ones
        self._resume_requests(out)

    def _last_response(self, out: list[Message]) -> None:
        """Note that a response runs until the connection closes: what the client sends is none.

        What it sends belongs to a protocol that took over the connection, as of Docker's attach.
        """
        if self._doubtful:  # it may be that to a HEAD request, and have no body
            self._resume_requests(out)
        else:
            self._has_last_response = True
            self._requests.finish(out)

    def _request(self, raw: bytes, out: list[Message]) -> tuple[RequestHead, Framing] | None:
        """Report a request's head; return it with its framing (RFC 9112 section 6.3)."""
        parsed = parse_request(raw)
        if parsed is None:
            return None
        message, fields = parsed
        if self._responses_lost:
            # A client that does not pipeline already received its earlier responses.
            self._abort_waiting(out)
        elif len(self._waiting) >= _MAX_WAITING:
            self._abort_oldest(out)
        method, upgrade = message.method, fields.upgrade
        if upgrade == "h2c" and not (self._waiting or self._responses.in_message):
            stream = 1  # the HTTP/2 stream of its response
            self._streams = max(1, self._streams)
        else:
            stream = self._streams = self._streams + 1
        message.stream = stream
        waiting = _WaitingRequest(stream, method if method in _FRAMING_METHODS else "", upgrade)
        if self._requests_lost:
            waiting.is_next = not self._waiting
            self._requests_lost = False
        self._waiting.append(waiting)
        out.append(message)
        framing = fields.request_framing
        if framing is None:
            framing = fields.request_framing = request_framing(fields)
        if method == "CONNECT" and not framing.fault:
            # A body after it has no meaning (RFC 9110 section 9.3.6).
            framing = replace(framing, switch=True) if fields.chunked else _SWITCHES
        if framing.fault:
            message.warnings = (*message.warnings, framing.fault)
        return message, framing

    def _response(self, raw: bytes, out: list[Message]) -> tuple[ResponseHead, Framing] | None:
        """Report a response's head; return it with its framing (RFC 9112 section 6.3)."""
        head = parse_response(raw)
        if head is None:
            return None
        framing = head.framing
        if framing is None:
            framing = head.framing = response_framing(head)
        is_final = framing is not _INFORMATIONAL
        waiting, doubt = self._waiting[0] if self._waiting else None, False
        if (
            waiting is None
            or waiting.responses_ahead
            or not waiting.is_next
            or self._responses_lost
        ):
            waiting, doubt = self._find_request(waiting, is_final, out)
        elif is_final:
            self._waiting.popleft()
        warnings = (*head.warnings, framing.fault) if framing.fault else head.warnings
        if self._doubtful and not doubt:
            warnings = (*warnings, _IN_DOUBT)
        message = ResponseHead(
            waiting.stream, head.version, head.status, head.reason, head.fields.headers, warnings
        )
        out.append(message)
        if not is_final:
            return message, framing
        if framing is _SWITCHES:
            return message, self._switching(waiting, head.fields.upgrade or waiting.upgrade, head)
        if waiting.method == "CONNECT" and 200 <= head.status < 300:
            return message, self._switching(waiting, "connect", head)
        if waiting.method == "HEAD":
            framing = _NO_BODY
        state = self._requests.state
        if state is _WAIT and (doubt or framing.fault or framing.state is not _UNTIL_CLOSE):
            self._resume_requests(out)
        elif state is _EXPECT:
            self._requests.refuse(waiting.stream)
        if doubt and framing is not _NO_BODY and not framing.fault:
            framing = replace(framing, doubt=True)
        return message, framing

    def _find_request(
        self, waiting: _WaitingRequest | None, is_final: bool, out: list[Message]
    ) -> tuple[_WaitingRequest, bool]:
        """Return the request that a response answers, where messages may be missing.

        Return also whether it is a new record of a request that was not seen, or was aborted.
        """
        if self._requests.state is _REFUSED:
            self._requests.answer(out)
            waiting = self._waiting[0] if self._waiting else None
        if waiting is not None:
            several = len(self._waiting) + waiting.responses_ahead > 1
            if not waiting.is_next or (self._responses_lost and several):
                self._doubtful = True
                self._abort_waiting(out)
                waiting = None
        self._responses_lost = False
        if waiting is not None and not waiting.responses_ahead:
            if is_final:
                self._waiting.popleft()
            return waiting, False
        if waiting is not None:
            waiting.responses_ahead -= 1
        self._streams += 1
        waiting = _WaitingRequest(self._streams)
        if not is_final:
            self._waiting.appendleft(waiting)
        return waiting, True

    def _abort_oldest(self, out: list[Message]) -> None:
        """Abort the oldest request; its response, if it comes, must not be paired with the next."""
        oldest = self._waiting.popleft()
        self._waiting[0].responses_ahead += oldest.responses_ahead + 1
        error = f"over {_MAX_WAITING} exchanges open"
        out.append(Aborted(oldest.stream, _SERVER, error))

    def _abort_waiting(self, out: list[Message]) -> None:
        for waiting in self._waiting:
            out.append(Aborted(waiting.stream, _SERVER, f"undecodable: {BYTES_LOST}"))
        self._waiting.clear()

    def _switching(self, waiting: _WaitingRequest, token: str | None, head: StatusHead) -> Framing:
        self._next = Switch(token or "", waiting.stream, head.fields.headers)
        if token == "h2c" and waiting.stream == 1:
            # The response follows as HTTP/2 on stream 1 (RFC 7540 section 3.2).
            return Framing(ReadState.SWITCHED)
        return _SWITCHES

    def _resume_requests(self, out: list[Message]) -> None:
        """Decode what the client sent after a request to switch, if the server did not switch."""
        requests = self._requests
        if requests.state is _WAIT and self._after_switch_request(requests.stream) is _HEAD:
            requests.resume(out)

    def _hand_over(self, switch: Switch, out: list[Message]) -> None:
        switch.pending[_CLIENT] = self._requests.switch()
        switch.pending[_SERVER] = self._responses.switch()
        self.switch = switch
        self._on_switch(switch, out)


def request_framing(fields: Fields) -> Framing:
    """Return a request's framing by its fields alone (RFC 9112 section 6.3)."""
    switch = fields.upgrade is not None
    if fields.chunked:
        return _expected(Framing(ReadState.CHUNK_SIZE, switch=switch), fields)
    # Rule 4.3: the end of a request whose last coding is another cannot be known.
    fault = "Transfer-Encoding without chunked" if fields.coded else fields.fault
    if fault:
        return Framing(ReadState.UNTIL_CLOSE, fault=fault)
    if not fields.length:
        return Framing(_HEAD, 0, switch=switch)
    return _expected(Framing(ReadState.FIXED, fields.length, switch=switch), fields)


def _expected(framing: Framing, fields: Fields) -> Framing:
    """Return the framing of a request with a body, which may wait for ``100 Continue``."""
    if not fields.expects:
        return framing
    return replace(framing, state=_EXPECT, expected=framing.state)


def response_framing(head: StatusHead) -> Framing:
    """Return a response's framing by its head alone (RFC 9112 section 6.3)."""
    status, fields = head.status, head.fields
    if status == 101:
        return _SWITCHES
    if 100 <= status < 200:
        return _INFORMATIONAL
    if status in (204, 304):
        return _NO_BODY
    if fields.chunked:
        return Framing(ReadState.CHUNK_SIZE)
    if fields.fault and not fields.coded:
        return Framing(ReadState.UNTIL_CLOSE, fault=fields.fault)
    if fields.length is None or fields.coded:
        return Framing(ReadState.UNTIL_CLOSE)
    return Framing(ReadState.FIXED, fields.length) if fields.length else _NO_BODY
