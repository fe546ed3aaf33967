"""Where the decoders differ from a corpus on purpose, each with the reason."""

_FOLDING = "a fold becomes one space (RFC 9112 section 5.2); llhttp keeps the white space"
_BEFORE_COLON = "white space before the colon is removed, as a proxy must (RFC 9112 section 5.1)"
_REASON = "white space around the reason is no part of it; llhttp keeps it"

LLHTTP_SPACE: dict[str, str] = {
    "request/connection: Multiple tokens with folding, LWS, and CRLF": _FOLDING,
    "request/sample: Line folding in header value with CRLF": _FOLDING,
    "request/sample: X-SSL-Nonsense": _FOLDING,
    "response/transfer-encoding: Invalid OBS fold after chunked value": _FOLDING,
    "request/connection: Invalid whitespace token with `Connection` header field (lenient)": (
        _BEFORE_COLON
    ),
    "request/content-length: Invalid whitespace token with `Content-Length` header field"
    " (lenient)": _BEFORE_COLON,
    "response/invalid: Extra space between status code and reason": _REASON,
}
"""Those that differ in white space alone."""

_NO_LENGTH = "a request's body never lasts until the close (RFC 9112 section 6.3); reported"
_NOT_HTTP = "another protocol, or a version of HTTP that never was, is not decoded as HTTP/1"
_BARE_CR = (
    "a carriage return alone ends no line (RFC 9112 section 2.2); llhttp was told to allow it"
)
_NO_BODY = "llhttp was told by its caller that there is no body; here nothing says so"

LLHTTP: dict[str, str] = {
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
}

_RANGE = "curl was told to resume: it shows what it had already, not the body"
_REFUSED = "curl refuses the reply by a rule of its own and shows it up to there; here it is whole"
_STOPPED = "curl was told to take no more than so many bytes"
_MORE = "the program that used libcurl wrote more than the replies"
_RAW = "curl --raw writes the framing, too"
_OTHER = "what curl shows came through the tunnel, from a server that does not speak HTTP"
_UNSEEN = "what curl shows first came from a server that the case does not contain"
_CUT = "the head has no end: the connection closes in it, so it is reported as undecoded"
_NO_STATUS = "not a status line (RFC 9112 section 4): three digits, and a version of HTTP"

CURL_SHOWN: dict[str, str] = {
    f"test{number}": reason
    for reason, numbers in {
        _RANGE: (1040, 1043, 1273, 1475),
        _REFUSED: (178, 398, 415, 499, 580, 1546, 1722, 1723, 1801),
        _STOPPED: (457,),
        _MORE: (552, 585, 1509, 1540, 1541, 1554, 2032, 3033),
        _RAW: (319, 326),
        _OTHER: (714, 715, 973, 975, 1316, 1319, 1321, 1631, 1632),
        _UNSEEN: (999,),
        _CUT: (1665,),
    }.items()
    for number in numbers
}

CURL_REPLIES: dict[str, str] = {
    f"test{number}": reason
    for reason, numbers in {_CUT: (1665, 2304), _NO_STATUS: (1430, 1431, 1432, 1433)}.items()
    for number in numbers
}

FRAMES: dict[str, str] = {
    "error/data-frame-size.json": (
        "its length is beyond what the peer allows, so it is taken for no frame, and step is lost"
    ),
}
"""Wrong frames after which the next one is not found at once."""
