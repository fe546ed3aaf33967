"""Turns an exchange into an entry of an HTTP Archive (HAR 1.2).

The form is that of www.softwareishard.com/blog/har-12-spec and of the W3C draft
(w3c.github.io/web-performance/specs/HAR/Overview.html). Fields of our own begin with ``_``, as
both ask. A required value that is not known is ``?`` or -1, with a comment.
"""

import base64
from dataclasses import replace
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from sslsniff.core.model import Body, Exchange, Request, Response
from sslsniff.decoders.content import charsets, codings
from sslsniff.decoders.messages import Header, Headers
from sslsniff.forms.text import pieces

Object = dict[str, Any]

_UNKNOWN_HOST = "unknown.invalid"  # a name that is never registered (RFC 2606)
_NOT_SEEN = "it was not seen"
_NO_TIME = "when it began is not known: all times here are made up"


def entry(exchange: Exchange) -> Object:
    """Return the entry of ``exchange``, a JSON object."""
    connection = exchange.connection
    timings = _timings(exchange)
    fields: Object = {
        "startedDateTime": pieces.utc_time(exchange.started_ns),
        "time": round(sum(timings.values()), 3),
        "request": _request(exchange),
        "response": _response(exchange),
        "cache": {},
        "timings": {"blocked": -1, "dns": -1, "connect": -1, "ssl": -1, **timings},
        "_connectionId": connection.id,
        "_process": pieces.origin(connection, exchange.tid),
        "_missingBytes": exchange.missing_bytes,
    }
    if not exchange.started_ns:
        fields["comment"] = _NO_TIME
    if connection.server is not None:
        fields["serverIPAddress"] = connection.server.ip
        fields["connection"] = str(connection.server.port)
    return fields


def _timings(exchange: Exchange) -> dict[str, float]:
    """Return the milliseconds of sending, waiting and receiving; their sum is the duration.

    HAR does not permit negative ones: there is no time of waiting if the response begins before the
    request is sent, and what was not seen has no duration.
    """
    began_ns = exchange.started_ns
    ended_ns = began_ns + (pieces.span_ns(began_ns, exchange.ended_ns) or 0)
    answered_ns = _within(began_ns, exchange.first_byte_ns, ended_ns)
    sent_ns = _within(began_ns, exchange.sent_ns, answered_ns)
    spans = (sent_ns - began_ns, answered_ns - sent_ns, ended_ns - answered_ns)
    return {
        name: round(span / 1e6, 3)
        for name, span in zip(("send", "wait", "receive"), spans, strict=True)
    }


def _within(least: int, value: int | None, most: int) -> int:
    return most if value is None else max(least, min(value, most))


def _request(exchange: Exchange) -> Object:
    request = exchange.request
    url = _url(exchange)
    fields: Object = {
        "method": "?" if request is None or request.method is None else request.method,
        "url": url,
        "httpVersion": exchange.protocol.upper(),
        "cookies": [],
        "headers": [],
        "queryString": _query(url),
        "headersSize": -1,
        "bodySize": -1,
    }
    if request is None:
        return fields | {"comment": _NOT_SEEN}
    fields["cookies"] = _cookies(request.headers)
    fields |= _headers_and_size(request)
    if request.body.size:
        shown = _text(_decoded(request.body, request.headers), request.headers)
        # HAR 1.2 has an encoding for responses only.
        if "encoding" in shown:
            shown["_encoding"] = shown.pop("encoding")
        fields["postData"] = {"mimeType": _value(request.headers, "content-type")} | shown
    return fields


def _response(exchange: Exchange) -> Object:
    response = exchange.response
    fields: Object = {
        "status": 0,
        "statusText": "",
        "httpVersion": exchange.protocol.upper(),
        "cookies": [],
        "headers": [],
        "content": {"size": 0, "mimeType": ""},
        "redirectURL": "",
        "headersSize": -1,
        "bodySize": -1,
    }
    if exchange.error is not None:
        fields["_error"] = exchange.error
    if exchange.omitted is not None:
        fields["_omitted"] = exchange.omitted._asdict()
    if response is None:
        return fields | {"comment": _NOT_SEEN}
    fields["status"] = response.status or 0
    fields["statusText"] = response.reason
    fields["cookies"] = _set_cookies(response.headers)
    fields["content"] = _content(response)
    fields["redirectURL"] = _value(response.headers, "location")
    fields["_transferSize"] = response.body.size  # else Chromium adds the -1 of the headers
    return fields | _headers_and_size(response)


def _headers_and_size(message: Request | Response) -> Object:
    """Return the fields that requests and responses have in common."""
    fields: Object = {"headers": _headers(message.headers), "bodySize": message.body.size}
    if message.trailers:
        fields["_trailers"] = _headers(message.trailers)
    return fields


def _headers(headers: list[Header]) -> list[Object]:
    return [
        {"name": name, "value": value}
        if name is not None and value is not None
        else {
            "name": "?" if name is None else name,
            "value": "?" if value is None else value,
            "comment": "not known: the connection was joined in the middle",
        }
        for name, value in headers
    ]


def _value(headers: list[Header], wanted: str) -> str:
    return next((v for name, v in headers if name and v and name.lower() == wanted), "")


def _url(exchange: Exchange) -> str:
    """Return the URL, always absolute: readers parse it."""
    request, server = exchange.request, exchange.connection.server
    host = exchange.connection.sni or (server.ip if server else _UNKNOWN_HOST)
    if ":" in host:
        host = f"[{host}]"
    scheme, target = exchange.connection.scheme, None
    if request is not None:
        host = request.host_and_port or host
        scheme, target = request.scheme or scheme, request.target
    if target is None or target == "*":  # RFC 9110 section 7.1: no path
        return f"{scheme}://{host}/"
    if target.startswith("/"):
        return f"{scheme}://{host}{target}"
    return target if "://" in target else f"{scheme}://{target}/"  # a proxy's, or CONNECT's


def _query(url: str) -> list[Object]:
    try:
        query = urlsplit(url).query
    except ValueError:  # such as brackets that do not match
        query = url.partition("?")[2]
    pairs = parse_qsl(query, keep_blank_values=True, errors="replace")
    return [{"name": name, "value": value} for name, value in pairs]


def _cookies(headers: list[Header]) -> list[Object]:
    """Return the cookies of a request (RFC 6265 section 4.2)."""
    cookies = []
    for name, value in headers:
        if name and value and name.lower() == "cookie":
            pairs = (each.strip().partition("=") for each in value.split(";"))
            cookies += [{"name": key, "value": text} for key, _, text in pairs if key]
    return cookies


def _set_cookies(headers: list[Header]) -> list[Object]:
    """Return the cookies that a response sets (RFC 6265 section 4.1)."""
    cookies = []
    for name, value in headers:
        if name and value and name.lower() == "set-cookie":
            pair, *attributes = (each.strip() for each in value.split(";"))
            key, _, text = pair.partition("=")
            cookie: Object = {"name": key, "value": text, "httpOnly": False, "secure": False}
            for attribute in attributes:
                cookie |= _attribute(*attribute.partition("=")[::2])
            cookies.append(cookie)
    return cookies


_ATTRIBUTES = {"path": "path", "domain": "domain", "samesite": "sameSite"}
_FLAGS = {"httponly": "httpOnly", "secure": "secure"}


def _attribute(name: str, value: str) -> Object:
    lowered = name.strip().lower()
    if lowered in _ATTRIBUTES:
        return {_ATTRIBUTES[lowered]: value}
    if lowered in _FLAGS:
        return {_FLAGS[lowered]: True}
    if lowered == "expires":
        try:
            return {"expires": parsedate_to_datetime(value).isoformat()}
        except (ValueError, OverflowError):  # years and zones of any number of digits
            return {}
    return {}


def _content(response: Response) -> Object:
    body = response.body
    decoded = _decoded(body, response.headers)
    is_decoded = codings.codings(response.headers) and not decoded.error
    fields: Object = {
        "size": len(decoded.data) if is_decoded else body.size,
        "mimeType": _value(response.headers, "content-type"),
        **_text(decoded, response.headers),
    }
    comment = decoded.error
    if is_decoded:
        fields["compression"] = len(decoded.data) - body.size
    if len(body.data) < body.size:
        comment = f"{len(body.data)} of {body.size} bytes were kept"
    return fields | ({"comment": comment} if comment else {})


def _decoded(body: Body, headers: Headers) -> codings.Decoded:
    """Return a body without its content coding; if that fails, as sent and with the error."""
    decoded = codings.decode(body.data, headers)
    if decoded.error:
        return codings.Decoded(body.data, False, decoded.error)
    return replace(decoded, complete=decoded.complete and len(body.data) == body.size)


def _text(decoded: codings.Decoded, headers: list[Header]) -> Object:
    shown = charsets.as_text(decoded.data, headers, cut=not decoded.complete)
    if shown is not None:
        return {"text": shown}
    return {"text": base64.b64encode(decoded.data).decode("ascii"), "encoding": "base64"}
