"""HTTP/1.0 and HTTP/1.1 (RFC 9112): requests and responses of one connection, paired by order.

Each side has a :class:`~sslsniff.decoders.http1.message_reader.MessageReader` for the framing. Here
is what needs both sides: which request a response answers, hence whether it has a body, and whether
the connection continues as HTTP/1.

After a loss it cannot be known how many messages were in it. A client that does not pipeline sends
its next request when it has the response to the last, so at most one request waits, and pairs are
certain again at once. Where more wait, none of them is paired: no pair is better than a wrong one.

Memory per connection: two readers (up to 1.1 MiB each) and ``_MAX_WAITING`` records of 150 bytes.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from sslsniff.decoders.decoder import CLOSED, Switch
from sslsniff.decoders.http1.framing import Framing, Pairing, ReadState
from sslsniff.decoders.http1.head import Fields, StatusHead
from sslsniff.decoders.http1.known_heads import parse_request, parse_response
from sslsniff.decoders.http1.message_reader import BYTES_LOST, MessageReader
from sslsniff.decoders.messages import (
    Aborted,
    Message,
    RequestHead,
    ResponseHead,
    Side,
    Undecoded,
)

_MAX_WAITING = 4096
"""Requests that wait for a response, as many as exchanges of HTTP/2; beyond, the oldest ends."""

_WAITING_BYTES = 150  # memory of one of them

_TELLING = frozenset(("HEAD", "CONNECT"))  # methods on which the response's framing depends
_IN_DOUBT = "may answer another request: messages were lost between pipelined ones"

# Looking up a member of an enum takes time.
_CLIENT, _SERVER = Side.CLIENT, Side.SERVER
_HEAD, _WAIT = ReadState.HEAD, ReadState.WAIT

_NO_BODY = Framing(_HEAD, 0)
_GOES_ON = Framing(_HEAD)
_SWITCHES = Framing(_HEAD, 0, switch=True)


@dataclass(slots=True)
class _WaitingRequest:
    """A request that was not answered; ``sure`` that no other may be between it and the last.

    ``method`` is empty if nothing depends on it. ``ahead`` responses, to older requests that were
    given up, come before its own.
    """

    stream: int
    method: str = ""
    upgrade: str | None = None
    sure: bool = True
    ahead: int = 0


class Http1Decoder:
    """Decodes one HTTP/1 connection, from its start or from its middle.

    When the connection leaves HTTP/1, ``switch`` says for what, and the bytes after that
    point are in it: the decoder has done its work and whoever feeds it goes on with another.
    ``switched`` is called then, with the list to which the next decoder's messages go.
    """

    protocol = "http/1.1"
    growth = 32  # trailers of three bytes each

    def __init__(
        self, switched: Callable[[Switch, list[Message]], None] = lambda switch, out: None
    ) -> None:
        self.switch: Switch | None = None
        self._on_switch = switched
        self._requests = MessageReader(
            _CLIENT, Pairing(self._request, self._switch_asked, self._requests_missing)
        )
        self._responses = MessageReader(
            _SERVER, Pairing(self._response, self._switched, self._responses_missing)
        )
        self._streams = 0
        self._waiting: deque[_WaitingRequest] = deque()
        self._requests_lost = self._responses_lost = False
        self._doubtful = False  # pairs may be wrong: a client that pipelines, and responses lost
        self._next: Switch | None = None  # while what is pending is not known

    def feed(self, side: Side, data: bytes) -> list[Message]:
        """Feed the next bytes that ``side`` sent."""
        out: list[Message] = []
        if self.switch is not None:
            return [Undecoded(side, data, len(data), "after a switch of protocols")]
        (self._requests if side is _CLIENT else self._responses).feed(data, out)
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

    # What the readers ask.

    def _switch_asked(self, stream: int) -> ReadState:
        """Hold what a client sends after a request to switch, until the response decides."""
        # Where responses are lost, that one may be lost, too.
        if self._responses_lost:
            return _HEAD
        # The reader stops after this request: if it waits for its response, it is the last one.
        waits = any(waiting.stream == stream for waiting in reversed(self._waiting))
        return _WAIT if waits else _HEAD

    def _switched(self, _stream: int) -> ReadState:
        return ReadState.SWITCHED

    def _requests_missing(self, out: list[Message]) -> None:
        """Remember that messages may be missing, so that later ones are not paired wrongly."""
        self._requests_lost = True

    def _responses_missing(self, out: list[Message]) -> None:
        """See ``_requests_missing``."""
        self._responses_lost = True
        self._decided(out)

    def _request(self, raw: bytes, out: list[Message]) -> tuple[RequestHead, Framing] | None:
        """Report a head and decide about its body (RFC 9112 section 6.3)."""
        parsed = parse_request(raw)
        if parsed is None:
            return None
        message, fields = parsed
        if self._responses_lost:
            # A client that does not pipeline has had the responses to its earlier requests.
            self._give_up_waiting(out)
        elif len(self._waiting) >= _MAX_WAITING:
            self._give_up_oldest(out)
        method, upgrade = message.method, fields.upgrade
        if upgrade == "h2c" and not (self._waiting or self._responses.in_message):
            stream = 1  # as its stream will be
            self._streams = max(1, self._streams)
        else:
            stream = self._streams = self._streams + 1
        message.stream = stream
        waiting = _WaitingRequest(stream, method if method in _TELLING else "", upgrade)
        if self._requests_lost:
            waiting.sure = not self._waiting
            self._requests_lost = False
        self._waiting.append(waiting)
        out.append(message)
        framing = fields.request_framing
        if framing is None:
            framing = fields.request_framing = _request_framing(fields)
        if method == "CONNECT" and not framing.fault:
            # A body after it has no meaning (RFC 9110 section 9.3.6).
            framing = replace(framing, switch=True) if fields.chunked else _SWITCHES
        return message, framing

    def _response(self, raw: bytes, out: list[Message]) -> tuple[ResponseHead, Framing] | None:
        """Report a head and decide about its body, see ``_request``."""
        head = parse_response(raw)
        if head is None:
            return None
        framing = head.framing
        if framing is None:
            framing = head.framing = _response_framing(head)
        is_final = framing is not _GOES_ON
        waiting, doubt = self._waiting[0] if self._waiting else None, False
        if waiting is None or waiting.ahead or not waiting.sure or self._responses_lost:
            waiting, doubt = self._perhaps_answered(waiting, is_final, out)
        elif is_final:
            self._waiting.popleft()
        warnings = head.warnings
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
        if self._requests.state is _WAIT:
            self._decided(out)
        if waiting.method == "HEAD":
            framing = _NO_BODY
        if doubt and framing is not _NO_BODY and not framing.fault:
            framing = replace(framing, doubt=True)
        return message, framing

    def _perhaps_answered(
        self, waiting: _WaitingRequest | None, is_final: bool, out: list[Message]
    ) -> tuple[_WaitingRequest, bool]:
        """Return what a response answers where messages may be missing, and whether that is new.

        Then its request was before the capture began, or lost, or was given up.
        """
        if waiting is not None:
            several = len(self._waiting) + waiting.ahead > 1
            if not waiting.sure or (self._responses_lost and several):
                self._doubtful = True
                self._give_up_waiting(out)
                waiting = None
        self._responses_lost = False
        if waiting is not None and not waiting.ahead:
            if is_final:
                self._waiting.popleft()
            return waiting, False
        if waiting is not None:
            waiting.ahead -= 1
        self._streams += 1
        waiting = _WaitingRequest(self._streams)
        if not is_final:
            self._waiting.appendleft(waiting)
        return waiting, True

    def _give_up_oldest(self, out: list[Message]) -> None:
        """Make room for a request; the response to the oldest is not taken for that to another."""
        oldest = self._waiting.popleft()
        self._waiting[0].ahead += oldest.ahead + 1
        error = f"over {_MAX_WAITING} exchanges open"
        out.append(Aborted(oldest.stream, _SERVER, error))

    def _give_up_waiting(self, out: list[Message]) -> None:
        for waiting in self._waiting:
            out.append(Aborted(waiting.stream, _SERVER, f"undecodable: {BYTES_LOST}"))
        self._waiting.clear()

    def _switching(self, waiting: _WaitingRequest, token: str | None, head: StatusHead) -> Framing:
        self._next = Switch(token or "", waiting.stream, head.fields.headers)
        if token == "h2c" and waiting.stream == 1:
            # The response follows as HTTP/2 on stream 1 (RFC 7540 section 3.2).
            return Framing(ReadState.SWITCHED)
        return _SWITCHES

    def _decided(self, out: list[Message]) -> None:
        """Read on what the client sent after a request to switch that came to nothing."""
        requests = self._requests
        if requests.state is _WAIT and self._switch_asked(requests.stream) is _HEAD:
            requests.resume(out)

    def _hand_over(self, switch: Switch, out: list[Message]) -> None:
        switch.pending[_CLIENT] = self._requests.switch()
        switch.pending[_SERVER] = self._responses.switch()
        self.switch = switch
        self._on_switch(switch, out)


def _request_framing(fields: Fields) -> Framing:
    """Return how a request continues by its fields alone (RFC 9112 section 6.3)."""
    switch = fields.upgrade is not None
    if fields.chunked:
        return Framing(ReadState.CHUNK_SIZE, switch=switch)
    # Rule 4.3: the end of a request whose last coding is another cannot be known.
    fault = "Transfer-Encoding without chunked" if fields.coded else fields.fault
    if fault:
        return Framing(ReadState.UNTIL_CLOSE, fault=fault)
    return Framing(ReadState.FIXED if fields.length else _HEAD, fields.length or 0, switch=switch)


def _response_framing(head: StatusHead) -> Framing:
    """Return how a response continues by its head alone (RFC 9112 section 6.3)."""
    status, fields = head.status, head.fields
    if status == 101:
        return _SWITCHES
    if 100 <= status < 200:
        return _GOES_ON
    if status in (204, 304):
        return _NO_BODY
    if fields.chunked:
        return Framing(ReadState.CHUNK_SIZE)
    if fields.fault and not fields.coded:
        return Framing(ReadState.UNTIL_CLOSE, fault=fields.fault)
    if fields.length is None or fields.coded:
        return Framing(ReadState.UNTIL_CLOSE)
    return Framing(ReadState.FIXED, fields.length) if fields.length else _NO_BODY
