"""Connections with secrets in them, as they pass, seen from the client."""

import gzip
import itertools
import random

import h2.config
import h2.connection
from hpack import Encoder

from sslsniff.decoders.inner.websocket import unmask
from tests.unit.captures import READ, WRITE, Step

SECRETS = tuple(
    word.encode()
    for word in (
        "bearer-Qx7vLm2K9w",
        "cookie-Zt4Rb8Yp1n",
        "setcookie-Hk3Wd6Vs0c",
        "proxyauth-Mf5Gj2Xa8e",
        "apikey-Uc9Ni4Bt7z",
        "form-Oy1Ph6Er3q",
        "json-Sl8Ka5Dw2m",
        "query-Vb2Jx9Fc4t",
        "folded-Tg7Qz1Ln6h",
        "pattern-77281934",
        "multi-Wn0Sr4Ue5k",
        "nested-Ci6Yo3Gv9b",
        "deep-Pd2Xk7Mq1f",
        "xauth-Lb6Tw9Rs3h",
        "user%3Ainfo-Jx8Ev2Nz5p",
        "unquoted-Gy4Mc7Kf0d",
    )
)
(BEARER, COOKIE, SET_COOKIE, PROXY, KEY, FORM, JSON, QUERY, FOLDED, NUMBER, PART, NESTED) = SECRETS[
    :12
]
(DEEP, X_AUTH, USERINFO, UNQUOTED) = SECRETS[12:]
PATTERN = r"pattern-\d{8}"
SEEN = b"not-secret-at-all"

_JSON = (
    b'{"user": "' + SEEN + b'", "Password": "' + JSON + b'\\"' + JSON + b'", "n": "' + NUMBER
    + b'", "at": "https:\\/\\/' + USERINFO + b'@h\\/", "clientSecret": ["' + NESTED
    + b'"], "q": "{\\"pwd\\":\\"' + DEEP + b'\\"}"}'
)  # fmt: skip
_FORM = b"user=" + SEEN + b"&password=" + FORM + b"&last=" + NUMBER
_MULTIPART = (
    b'--b\r\nContent-Disposition: form-data; name="user"\r\n\r\n' + SEEN + b"\r\n"
    b'--b\r\nContent-Disposition: form-data; name="new_password"\r\n\r\n' + PART + b"\r\n"
    b"--b\r\nContent-Disposition: form-data; name=api_key\r\n\r\n" + UNQUOTED + b"\r\n--b--\r\n"
)


def _post(path: bytes, body: bytes, *fields: bytes) -> bytes:
    head = b"POST " + path + b" HTTP/1.1\r\nHost: example.org\r\n"
    lines = b"".join(field + b"\r\n" for field in fields)
    return head + lines + b"Content-Length: %d\r\n\r\n" % len(body) + body


def _chunked(body: bytes) -> bytes:
    sizes = itertools.cycle((7, 30, 11))
    out, at = b"", 0
    while at < len(body):
        piece = body[at : at + next(sizes)]
        out += b"%x\r\n" % len(piece) + piece + b"\r\n"
        at += len(piece)
    return out + b"0\r\nX-Api-Key: " + KEY + b"\r\n\r\n"


def http1() -> list[Step]:
    answer = b"HTTP/1.1 200 OK\r\nSet-Cookie: s=" + SET_COOKIE + b"; Path=/\r\n"
    packed = gzip.compress(_JSON, mtime=0)
    return [
        (
            WRITE,
            _post(
                b"/login?token=" + QUERY,
                _FORM,
                b"Authorization: Bearer " + BEARER,
                b"COOKIE: a=" + COOKIE,
                b"Proxy-Authorization: Basic x\r\n  " + FOLDED,
                b"X-Auth-Token: " + X_AUTH,
                b"Referer: https://" + USERINFO + b"@example.org/",
                b"X-Seen: " + SEEN,
            ),
        ),
        (READ, answer + b"Transfer-Encoding: chunked\r\nTrailer: x\r\n\r\n" + _chunked(_JSON)),
        (WRITE, _post(b"/parts", _MULTIPART, b"Content-Type: multipart/form-data; boundary=b")),
        (READ, answer + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed)),
        (READ, packed),
        (
            WRITE,
            _post(
                b"http://" + USERINFO + b"@example.org/json",
                _JSON,
                b"proxy-authorization: " + PROXY,
            ),
        ),
        (READ, answer + b"Location: ftp://" + USERINFO + b"@h\r\nContent-Length: 4\r\n\r\nlast"),
    ]


def http2(requests: int = 4) -> list[Step]:
    """The same fields again and again: later ones are only entries of the dynamic table."""
    client = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
    server = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
    steps: list[Step] = []

    def pump() -> None:
        for one, other, direction in ((client, server, WRITE), (server, client, READ)):
            if data := one.data_to_send():
                steps.append((direction, data))
                other.receive_data(data)

    client.initiate_connection()
    server.initiate_connection()
    pump()
    pump()
    for number in range(requests):
        stream = 2 * number + 1
        client.send_headers(
            stream,
            [
                (":method", "POST"),
                (":path", f"/{number}?token={QUERY.decode()}"),
                (":scheme", "https"),
                (":authority", "example.org"),
                ("authorization", f"Bearer {BEARER.decode()}"),
                ("cookie", f"a={COOKIE.decode()}"),
                ("x-api-key", KEY.decode()),
                ("x-auth-token", X_AUTH.decode()),
                ("referer", f"https://{USERINFO.decode()}@example.org/{number}"),
                ("x-number", f"{SEEN.decode()} {NUMBER.decode()}"),
                ("x-seen", f"{SEEN.decode()} {number}"),
            ],
        )
        client.send_data(stream, _JSON[:35])
        client.send_data(stream, _JSON[35:], end_stream=True, pad_length=9)
        server.increment_flow_control_window(1000)
        client.increment_flow_control_window(1000)
        pump()
        fields = [(":status", "200"), ("set-cookie", f"s={SET_COOKIE.decode()}")]
        server.send_headers(stream, [*fields, ("x-seen", SEEN.decode())])
        server.send_data(stream, _FORM, end_stream=True)
        pump()
    return steps


def overlapping() -> list[Step]:
    """A request with its response, while the body of another one pauses in a secret."""
    client = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
    server = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
    asked = [(":path", "/"), (":scheme", "https"), (":authority", "h")]
    client.initiate_connection()
    client.send_headers(1, [(":method", "POST"), *asked, ("content-type", "application/json")])
    client.send_data(1, b'{"password":"' + BEARER[:5])
    client.send_headers(3, [(":method", "GET"), *asked], end_stream=True)
    sent = client.data_to_send()
    server.initiate_connection()
    server.receive_data(sent)
    server.send_headers(3, [(":status", "200"), ("x-seen", SEEN.decode())], end_stream=True)
    answered = server.data_to_send()
    client.receive_data(answered)
    client.send_data(1, BEARER[5:] + b'"}', end_stream=True)
    return [(WRITE, sent), (READ, answered), (WRITE, client.data_to_send())]


def http2_frames(*blocks: bytes) -> bytes:
    """Return what a client sends of requests with these header blocks, in many frames each."""
    sent = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
    for number, block in enumerate(blocks):
        for at in range(0, len(block), 150):
            piece = block[at : at + 150]
            kind, flags = (9, 0) if at else (1, 1)  # CONTINUATION; HEADERS with END_STREAM
            flags |= 4 * (at + len(piece) == len(block))  # END_HEADERS
            sent += len(piece).to_bytes(3, "big") + bytes((kind, flags))
            sent += (2 * number + 1).to_bytes(4, "big") + piece
    return sent


def continued() -> list[Step]:
    """Header blocks in pieces, and without Huffman codes: as they are, secrets can be seen."""
    encoder = Encoder()
    requests = []
    for _ in range(3):
        fields = [(":method", "GET"), (":path", "/"), (":scheme", "https"), (":authority", "h")]
        for number in range(6):
            fields += [
                (f"x-{number}", NUMBER.decode()),
                ("authorization", f"Bearer {number} {BEARER.decode()}"),
                ("cookie", f"a{number}={COOKIE.decode()}"),
            ]
        requests.append(encoder.encode(fields, huffman=False))
    return [(WRITE, http2_frames(*requests)), (READ, bytes((0, 0, 0, 4, 0, 0, 0, 0, 0)))]


def websocket() -> list[Step]:
    wish = b"GET /ws HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    wish += b"Authorization: Bearer " + BEARER + b"\r\nX-Seen: " + SEEN + b"\r\n\r\n"
    mask = b"\x11\x9a\x3c\xf0"
    sent = bytes((0x81, 0x80 | 126)) + len(_JSON).to_bytes(2, "big") + mask + unmask(_JSON, mask, 0)
    parts = bytes((1, 20)) + _FORM[:20] + bytes((0x80, len(_FORM) - 20)) + _FORM[20:]
    return [
        (WRITE, wish),
        (READ, b"HTTP/1.1 101 Y\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n" + parts),
        (WRITE, sent),
        (READ, parts),
    ]


def unknown() -> list[Step]:
    return [
        (WRITE, b"\x01\x02LOGIN " + FORM),
        (READ, b"\x00 welcome " + JSON),
        (WRITE, b"\xff" * 99),
    ]


TRAFFIC = {"http1": http1, "http2": http2, "websocket": websocket, "unknown": unknown}


def cut(steps: list[Step], pieces: random.Random) -> list[Step]:
    """Return the same bytes in other pieces."""
    out: list[Step] = []
    for direction, data in steps:
        assert isinstance(data, bytes)
        at = 0
        while at < len(data):
            size = pieces.choice((1, 2, 3, 9, 40, 300))
            out.append((direction, data[at : at + size]))
            at += size
    return out
