"""Connections with a secret wherever a protocol has room for one."""

import gzip
import struct
from collections.abc import Callable
from urllib.parse import quote

import h2.config
import h2.connection
from hypothesis import strategies as st

from sslsniff.decoders.inner.websocket import unmask
from sslsniff.decoders.messages import Side
from tests.property.planted_bodies import CODINGS, SECRET, Body
from tests.unit.captures import READ, WRITE, Step
from tests.unit.decoders.databases import database_wires as db
from tests.unit.decoders.wires import C, S
from tests.unit.decoders.wires import Step as SideStep

HEADERS = (
    *("Authorization", "Proxy-Authorization", "Cookie", "Set-Cookie", "X-Auth-Token", "X-Api-Key"),
    *("x-token-bin", "authorization-bin", "X-" + "a" * 200 + "-Secret", "X-JWT"),
)
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def _fields(draw: st.DrawFn, body: Body) -> list[tuple[str, str]]:
    kind, data = body
    header = draw(st.sampled_from(HEADERS))
    fields = [(header, f"Bearer {SECRET}"), ("Referer", f"https://u:{SECRET}@h/?token={SECRET}")]
    coding = ("content-encoding" if kind in CODINGS else "content-type", kind)
    return [*fields, coding, ("content-length", str(len(data)))]


def http1(draw: st.DrawFn, body: Body) -> list[Step]:
    fields = [*_fields(draw, body)]
    fold = draw(st.sampled_from(["", "\r\n\t", "\r\n "]))
    data = body[1]
    if draw(st.booleans()):
        fields[-1] = ("Transfer-Encoding", "chunked")
        size = draw(st.integers(1, 60))
        pieces = [data[at : at + size] for at in range(0, len(data), size)]
        data = b"".join(b"%x\r\n%b\r\n" % (len(each), each) for each in pieces)
        data += b"0\r\nAuthorization: " + SECRET.encode() + b"\r\n\r\n"
    lines = "".join(f"{name}:{fold} {value}\r\n" for name, value in fields)
    head = f"POST /login;password={SECRET}?token={SECRET}&q=1 HTTP/1.1\r\nHost: h\r\n{lines}\r\n"
    if draw(st.booleans()):
        return [(WRITE, head.encode() + data), (READ, OK)]
    answer = f"HTTP/1.1 200 OK\r\nSet-Cookie: a={SECRET}\r\n{lines}\r\n"
    return [(WRITE, b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"), (READ, answer.encode() + data)]


def socks(draw: st.DrawFn, body: Body) -> list[Step]:
    """HTTP after a handshake of SOCKS 5 with a password (RFC 1929), or of SOCKS 4 with a user."""
    secret = SECRET.encode()
    log_in = bytes((1, 4)) + b"name" + bytes((len(secret),)) + secret
    asked = b"\3\4h.te\0\x50"
    five: list[Step] = [
        *((WRITE, b"\5\2\0\2"), (READ, b"\5\2"), (WRITE, log_in), (READ, b"\1\0")),
        *((WRITE, b"\5\1\0" + asked), (READ, b"\5\0\0\1" + bytes(6))),
    ]
    four: list[Step] = [
        (WRITE, b"\4\1\0\x50\x7f\0\0\1" + secret + b"\0"),
        (READ, b"\0\x5a" + bytes(6)),
    ]
    return [*draw(st.sampled_from([five, four])), *http1(draw, body)]


def http2(draw: st.DrawFn, body: Body) -> list[Step]:
    config = h2.config.H2Configuration(client_side=True)
    client = h2.connection.H2Connection(config)
    client.initiate_connection()
    pseudo = [(":method", "POST"), (":scheme", "https"), (":authority", f"u:{SECRET}@h")]
    fields = [(name.lower(), value) for name, value in _fields(draw, body)]
    for stream in (1, 3):
        path = (":path", f"/?api_key={SECRET}")
        client.send_headers(stream, [*pseudo, path, *fields])
        half = draw(st.integers(0, len(body[1])))
        client.send_data(stream, body[1][:half], pad_length=draw(st.sampled_from([None, 3])))
        client.send_data(stream, body[1][half:], end_stream=True)
    return [(WRITE, client.data_to_send())]


def websocket(draw: st.DrawFn, body: Body) -> list[Step]:
    data = body[1] if body[0] not in CODINGS else b"{}"
    ask = (
        b"GET /ws?token=%b HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Authorization: Bearer %b\r\nCookie: a=%b\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    ) % (3 * (SECRET.encode(),))
    agree = (
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSet-Cookie: a=%b\r\n\r\n"
    ) % SECRET.encode()
    size = draw(st.integers(1, 120))
    asked, answered = b"", b""
    for at in range(0, len(data), size):
        piece = data[at : at + size]
        flags = (1 if not at else 0) | (0x80 if at + size >= len(data) else 0)
        asked += bytes((flags, 0x80 | len(piece))) + b"abcd" + unmask(piece, b"abcd", 0)
        answered += bytes((flags, len(piece))) + piece
    return [(WRITE, ask), (READ, agree), (WRITE, asked), (READ, answered)]


def expecting(draw: st.DrawFn, body: Body) -> list[Step]:
    """A body that the client sends after an interim answer, or in spite of a final one."""
    kind, data = body
    field = f"{'Content-Encoding' if kind in CODINGS else 'Content-Type'}: {kind}\r\n"
    head = f"PUT /?token={SECRET} HTTP/1.1\r\nHost: h\r\nAuthorization: {SECRET}\r\n{field}"
    head += f"Expect: 100-continue\r\nContent-Length: {len(data)}\r\n\r\n"
    interim = f"HTTP/1.1 100 Continue\r\nSet-Cookie: a={SECRET}\r\n\r\n".encode()
    refused = b"HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n\r\n"
    after = f"GET /?api_key={SECRET} HTTP/1.1\r\nHost: h\r\n\r\n".encode()
    steps: list[Step] = [(WRITE, head.encode())]
    if draw(st.booleans()):
        steps += [(READ, interim), (WRITE, data), (READ, OK)]
    else:
        steps += [(READ, refused), *([(WRITE, data)] if draw(st.booleans()) else [])]
    return [*steps, (WRITE, after), (READ, OK)]


def grpc(draw: st.DrawFn, body: Body) -> list[Step]:
    """A call with JSON as its messages, perhaps compressed, and metadata."""
    kind, message = body
    if kind not in CODINGS and draw(st.booleans()):
        kind, message = "gzip", gzip.compress(message, mtime=0)
    is_packed = kind in CODINGS
    framed = struct.pack(">BI", is_packed, len(message)) + message
    fields = [
        *((":method", "POST"), (":scheme", "https"), (":authority", "h"), (":path", "/a.B/C")),
        *(("content-type", "application/grpc+json"), ("te", "trailers")),
        *(("authorization", f"Bearer {SECRET}"), ("x-token-bin", SECRET), ("x-api-key", SECRET)),
    ]
    coding = [("grpc-encoding", kind)] if is_packed else []
    client = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
    server = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
    client.initiate_connection()
    client.send_headers(1, [*fields, *coding])
    client.send_data(1, framed, end_stream=True)
    sent = client.data_to_send()
    server.initiate_connection()
    server.receive_data(sent)
    server.send_headers(1, [(":status", "200"), ("content-type", "application/grpc"), *coding])
    server.send_data(1, framed)
    said = quote(f"https://u:{SECRET}@h: token={SECRET} is wrong")
    trailers = [("grpc-status", "16"), ("grpc-message", said), ("x-secret", SECRET)]
    server.send_headers(1, trailers, end_stream=True)
    return [(WRITE, sent), (READ, server.data_to_send())]


PROTOCOLS = {each.__name__: each for each in (http1, socks, http2, websocket, expecting, grpc)}


def _from_client(wire: list[SideStep]) -> list[Step]:
    steps: list[Step] = []
    for side, what in wire:
        assert isinstance(what, bytes)
        steps.append((WRITE if side is Side.CLIENT else READ, what))
    return steps


def postgresql(draw: st.DrawFn) -> list[Step]:
    secret = SECRET.encode()
    literal = (
        draw(st.sampled_from([b"'%b'", b"E'a\\'%b'", b"$$%b$$", b"$x$%b$x$", b"U&'%b'"])) % secret
    )
    row = db.pg("D", b"\0\1", struct.pack(">I", len(secret)), secret)
    said = f"duplicate key: Key (token)=({SECRET}) exists"
    return _from_client(
        [
            (C, db.pg_startup(user="app", database="shop")),
            (S, db.pg("R", b"\0\0\0\3")),
            (C, db.pg("p", secret + b"\0")),
            (S, db.pg("R", bytes(4)) + db.pg("K", bytes(8)) + db.PG_READY),
            (
                C,
                db.pg("Q", b"UPDATE users SET password = " + literal + b" /* " + secret + b" */\0"),
            ),
            (S, db.pg_tag("UPDATE 1") + db.PG_READY),
            (
                C,
                db.pg_parse(b"SELECT $1, 's'") + db.pg_bind(secret) + db.PG_EXECUTE + db.PG_SYNC,
            ),
            (S, db.pg("1") + db.pg("2") + row + db.pg_tag("SELECT 1") + db.PG_READY),
            (C, db.pg("Q", b"ALTER ROLE a PASSWORD '" + secret + b"'\0")),
            (S, db.pg_error("23505", said) + db.PG_READY),
        ]
    )


def mysql(draw: st.DrawFn) -> list[Step]:
    secret = SECRET.encode()
    literal = (
        draw(st.sampled_from([b"'%b'", b'"%b"', b"'a''%b'", b"x'00' '%b'", b"N'%b'"])) % secret
    )
    row = bytes((len(secret),)) + secret
    said = b"\xff\x26\x04#23000Duplicate entry '" + secret + b"' for key 'token'"
    return _from_client(
        [
            *db.MY_LOGIN,
            (C, db.my_query(b"SET PASSWORD = " + literal + b" -- " + secret)),
            (S, db.my_answer(db.MY_OK)),
            (C, db.my_query(b"SELECT n FROM t WHERE token = " + literal)),
            (S, db.my_answer(*db.MY_COLUMNS, row, db.MY_EOF)),
            (C, db.my_query(b"INSERT INTO t VALUES (" + literal + b")")),
            (S, db.my_answer(said)),
        ]
    )


def redis(draw: st.DrawFn) -> list[Step]:
    secret = SECRET.encode()
    words = draw(
        st.sampled_from(
            [
                (b"AUTH", secret),
                (b"AUTH", b"user", secret),
                (b"HELLO", b"3", b"AUTH", b"user", secret),
                (b"SET", b"key", secret, b"EX", b"9"),
                (b"CONFIG", b"SET", b"requirepass", secret),
                (b"ACL", b"SETUSER", b"a", b">" + secret),
                (b"MIGRATE", b"h", b"1", b"k", b"0", b"9", b"AUTH", secret),
            ]
        )
    )
    return _from_client(
        [
            (C, db.resp(b"PING")),
            (S, b"+PONG\r\n"),
            (C, db.resp(*words) + db.resp(b"GET", b"key")),
            (S, b"-ERR wrong " + secret + b"\r\n" + b"$%d\r\n%b\r\n" % (len(secret), secret)),
        ]
    )


DATABASES: dict[str, Callable[[st.DrawFn], list[Step]]] = {
    each.__name__: each for each in (postgresql, mysql, redis)
}
