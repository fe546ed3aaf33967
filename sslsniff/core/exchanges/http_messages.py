"""What messages of HTTP do to the exchanges of their connection."""

from collections.abc import Callable
from typing import Any

from sslsniff.core.exchanges.open_exchange import OpenExchange, head_bytes
from sslsniff.core.exchanges.open_exchanges import HTTP2, OpenExchanges
from sslsniff.core.model import NO_BODY, InnerMessage, Request, Response
from sslsniff.decoders import messages
from sslsniff.decoders.http2.heads import VERSION as HTTP2_VERSION
from sslsniff.decoders.messages import Headers, Side

_CLIENT, _SERVER = Side.CLIENT, Side.SERVER  # looking up a member of an enum takes time


def _request_head(on: OpenExchanges, message: messages.RequestHead) -> None:
    stream, headers, whole = message.stream, message.headers, message.whole
    opened = on.open.get(stream)
    began = None
    if opened is None:
        opened = on.begin(stream, message.version.lower())
        began = on.began
        if on.earlier_streams is not None:
            on.earlier_streams.note_request(stream)
    if on.redacted is not None:
        on.redacted.take(_CLIENT, opened)
    method, scheme, authority = message.method, message.scheme, message.authority
    opened.exchange.request = Request(
        method, message.target, scheme, authority, headers, NO_BODY, [], on.scheme
    )
    if began is not None:
        began(opened.exchange)
    if message.warnings:
        opened.add_warnings(message.warnings)
    if headers.omitted is not None:
        opened.add_omitted(headers.omitted)
    if whole:
        opened.add_body(_CLIENT, whole, 0, on.room)
    if whole is None or not on.end_message(stream, opened, _CLIENT):
        on.count_head(opened, head_bytes(headers))


def _response_head(on: OpenExchanges, message: messages.ResponseHead) -> None:
    stream, status, headers = message.stream, message.status, message.headers
    opened = on.open.get(stream)
    if opened is None:
        # The request, which names the version of HTTP/1, was not seen.
        is_http2 = message.version == HTTP2_VERSION
        opened = on.begin(stream, HTTP2 if is_http2 else "http/1.1")
        if on.earlier_streams is not None:
            on.earlier_streams.note_response(stream)
        if on.began is not None:
            on.began(opened.exchange)
    if on.redacted is not None:
        on.redacted.take(_SERVER, opened)
    exchange, whole = opened.exchange, message.whole
    is_last = whole is not None and exchange.sent_ns is not None and not opened.in_doubt
    body = on.room.whole_body(whole) if whole and is_last else NO_BODY
    response = Response(status, message.reason, headers, body, [])
    if message.warnings:
        opened.add_warnings(message.warnings)
    if headers.omitted is not None:
        opened.add_omitted(headers.omitted)
    if status is not None and 100 <= status < 200 and status != 101:
        if not opened.add_informational(response):
            return
    else:
        switched = exchange.response
        if switched is not None and switched.status == 101:
            # It goes on as HTTP/2 on stream 1 (h2c, RFC 7540 section 3.2).
            opened.add_informational(switched)
            exchange.protocol, exchange.stream = HTTP2, stream
        exchange.response = response
        exchange.first_byte_ns = on.now_ns
    if is_last:  # the usual case
        on.end(stream, None)
        return
    if whole:
        opened.add_body(_SERVER, whole, 0, on.room)
    if whole is None or not on.end_message(stream, opened, _SERVER):
        on.count_head(opened, head_bytes(headers))


def _earlier(on: OpenExchanges, stream: int, side: Side) -> OpenExchange | None:
    """Open an exchange whose head passed before the capture; None: it is none, or is over."""
    earlier = on.earlier_streams
    if earlier is None or side is not _SERVER or on.decoder.protocol != HTTP2:
        return None
    if not earlier.is_new(stream):
        return None
    opened = on.begin(stream, HTTP2)
    opened.exchange.response = Response(None, "", Headers(), NO_BODY, [])
    if on.began is not None:
        on.began(opened.exchange)
    return opened


def _body_data(on: OpenExchanges, message: messages.BodyData) -> None:
    stream, side = message.stream, message.side
    opened = on.open.get(stream) or _earlier(on, stream, side)
    if opened is not None:
        opened.add_body(side, message.data, message.missing, on.room)


def _body_in_doubt(on: OpenExchanges, message: messages.BodyInDoubt) -> None:
    opened = on.open.get(message.stream)
    if opened is not None:
        opened.in_doubt |= {message.side}


def _message_end(on: OpenExchanges, message: messages.MessageEnd) -> None:
    stream, side = message.stream, message.side
    opened = on.open.get(stream) or _earlier(on, stream, side)
    if opened is None:
        return
    size = opened.add_trailers(side, message.trailers) if message.trailers else 0
    if not on.end_message(stream, opened, side) and size:
        on.count_head(opened, size)


def _aborted(on: OpenExchanges, message: messages.Aborted) -> None:
    opened = on.open.get(message.stream)
    if opened is None:
        return
    # A server may stop a request that it has answered (RFC 9113 section 8.1). curl does not
    # wait for the empty frame after a body.
    is_success = opened.exchange.protocol == HTTP2 and opened.has_whole_response
    on.end(message.stream, None if is_success else message.error)


def _frame(on: OpenExchanges, message: messages.Frame) -> None:
    on.sink.frame(on.connection, message, on.now_ns, on.tid)


def _stall(on: OpenExchanges, message: messages.Stall) -> None:
    on.stalls.handle(on.connection, message, on.now_ns, on.request_name)


def _frame_totals(on: OpenExchanges, message: messages.Http2Totals) -> None:
    on.sink.frame_totals(on.connection, message, on.now_ns)


def _stream_message(on: OpenExchanges, message: messages.StreamMessage) -> None:
    opened = on.open.get(message.stream)
    exchange = opened.exchange if opened is not None else on.switched
    inner = InnerMessage(on.connection, exchange, message, on.now_ns, on.tid)
    on.sink.message(inner)


def _body_trailers(on: OpenExchanges, message: messages.BodyTrailers) -> None:
    opened = on.open.get(message.stream)
    if opened is not None:
        on.count_head(opened, opened.add_trailers(message.side, message.trailers))


def _model_request(on: OpenExchanges, message: messages.ModelRequest) -> None:
    opened = on.open.get(message.stream)
    if opened is not None:
        opened.exchange.model_call = message.call


def _first_output(on: OpenExchanges, message: messages.FirstOutput) -> None:
    opened = on.open.get(message.stream)
    if opened is not None and opened.exchange.model_call is not None:
        opened.exchange.model_call.first_output_ns = on.now_ns


def _answer_end(on: OpenExchanges, message: messages.AnswerEnd) -> None:
    opened = on.open.get(message.stream)
    if opened is not None and opened.exchange.model_call is not None:
        opened.exchange.model_call.complete_ns = on.now_ns


def _undecoded(on: OpenExchanges, message: messages.Undecoded) -> None:
    on.sink.undecoded(on.connection, message, on.now_ns)


HANDLERS: dict[type, Callable[[OpenExchanges, Any], None]] = {
    messages.RequestHead: _request_head,
    messages.ResponseHead: _response_head,
    messages.BodyData: _body_data,
    messages.BodyInDoubt: _body_in_doubt,
    messages.MessageEnd: _message_end,
    messages.Aborted: _aborted,
    messages.Frame: _frame,
    messages.Stall: _stall,
    messages.Http2Totals: _frame_totals,
    messages.Undecoded: _undecoded,
    messages.WebSocketMessage: _stream_message,
    messages.GrpcMessage: _stream_message,
    messages.ServerSentEvent: _stream_message,
    messages.BodyTrailers: _body_trailers,
    messages.ModelRequest: _model_request,
    messages.FirstOutput: _first_output,
    messages.AnswerEnd: _answer_end,
    messages.RpcNotification: _stream_message,
}
"""A handler for each type of message."""
