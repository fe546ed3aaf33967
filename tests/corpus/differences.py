"""Where the decoders differ from a corpus on purpose, each with the reason."""

_FOLDING = "a fold becomes one space (RFC 9112 section 5.2); llhttp keeps the white space"
_BEFORE_COLON = "white space before the colon is removed, as a proxy must (RFC 9112 section 5.1)"
_NO_LENGTH = "a request's body never lasts until the close (RFC 9112 section 6.3); reported"
_NOT_HTTP = "another protocol, or a version of HTTP that never was, is not decoded as HTTP/1"
_BARE_CR = (
    "a carriage return alone ends no line (RFC 9112 section 2.2); llhttp was told to allow it"
)
_NO_BODY = "llhttp was told by its caller that there is no body; here nothing says so"

LLHTTP: dict[str, str] = {
    "request/connection: Multiple tokens with folding, LWS, and CRLF": _FOLDING,
    "request/sample: Line folding in header value with CRLF": _FOLDING,
    "request/sample: X-SSL-Nonsense": _FOLDING,
    "response/transfer-encoding: Invalid OBS fold after chunked value": _FOLDING,
    "request/connection: Invalid whitespace token with `Connection` header field (lenient)": (
        _BEFORE_COLON
    ),
    "request/content-length: Invalid whitespace token with `Content-Length` header field"
    " (lenient)": _BEFORE_COLON,
    "request/content-length: Content-Length reset when no body is received": _NO_BODY,
    "response/content-length: Content-Length reset when no body is received": _NO_BODY,
    "request/content-length: Missing CRLF-CRLF before body (lenient)": _BARE_CR,
    "request/invalid: Headers separated by dummy characters (lenient)": _BARE_CR,
    "request/lenient-headers: Empty headers separated by CR (lenient)": _BARE_CR,
    "request/transfer-encoding: Chunk header not terminated by CRLF (lenient)": _BARE_CR,
    "response/invalid: Bare CR after response line (lenient)": _BARE_CR,
    "request/lenient-version: Invalid HTTP version (lenient)": _NOT_HTTP,
    "request/method: SOURCE request with ICE": _NOT_HTTP,
    "request/method: OPTIONS request with RTSP": _NOT_HTTP,
    "request/method: ANNOUNCE request with RTSP": _NOT_HTTP,
    "response/sample: RTSP response": _NOT_HTTP,
    "response/sample: ICE response": _NOT_HTTP,
    "request/sample: No HTTP version": "HTTP/0.9 is not decoded: any word would be a request",
    "request/transfer-encoding: POST with `Transfer-Encoding` and `Content-Length` (lenient)": (
        "identity alone changes nothing, so Content-Length counts; llhttp reads until the close"
    ),
    "request/transfer-encoding: POST with `chunked` before other transfer-coding (lenient)": (
        _NO_LENGTH
    ),
    "request/transfer-encoding: POST with `chunked` and duplicate transfer-encoding (lenient)": (
        _NO_LENGTH
    ),
    "response/invalid: Extra space between status code and reason": (
        "white space around the reason is no part of it; llhttp keeps it"
    ),
}

_RANGE = "curl was told to resume or to take a range and made up its output from more than the body"
_REFUSED = "curl refuses the reply by a rule of its own, so it writes less; the body is shown"
_UNDECODABLE = "the body's coding is damaged or unknown: curl writes nothing, the body is shown"
_TRAILERS = "curl writes trailers behind the body; here they are with the message's end"
_MORE = "the program that used libcurl wrote more than this one body"
_RAW = "curl --raw writes the framing, too"

CURL: dict[str, str] = {
    f"test{number}": reason
    for reason, numbers in {
        _RANGE: (92, 99, 194, 1040, 1042, 1043, 1273, 1434, 1475),
        _REFUSED: (78, 457, 752, 1127, 1154, 1618),
        _UNDECODABLE: (221, 223, 315, 1546, 1722, 1723),
        _TRAILERS: (1417, 1493),
        _MORE: (528, 554, 584, 585, 598, 643, 645, 653, 654, 676, 1554, 1948, 3033, 3207),
        _RAW: (319, 326),
    }.items()
    for number in numbers
}
