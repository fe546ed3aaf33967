"""Secrets in all the forms in which they pass: none of their bytes stays, however they are cut."""

import json
from collections.abc import Callable

import pytest

from sslsniff.core.model import Direction
from sslsniff.decoders.detect import Detector
from sslsniff.decoders.inner.websocket import unmask
from sslsniff.decoders.messages import Side, WebSocketMessage
from tests.unit.captures import READ, WRITE, Step
from tests.unit.decoders import wires
from tests.unit.redaction.test_redaction import joined, redact

SECRET = "S3CR3T0xyzzyQ"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
HEADERS = """
    AUTHORIZATION authorization Cookie Set-Cookie cookie2 PRIVATE-TOKEN X-Goog-Api-Key apikey
    client-secret X-Passphrase X-Passcode X-Credentials X-Authentication X-Oidc-Data X-Auth
    x-functions-key X-Api_Key x_auth_token X(1)-Token X-\xe9-Token
"""
FIELDS = [
    *(f"{name}: {{}}" for name in HEADERS.split()),
    f"X-{'a' * 140}-Token: {{}}",
    "Authorization: Bearer\r\n  {}",
    "Authorization:\r\n\t{}",
    "Authorization:\r\n \r\n {}",
    "Authorization : {}",
    "Authorization\t: {}",
    "Authorization:{}",
    "X: a\rAuthorization: {}",
    "X: a\r\n Authorization: {}",
    "Referer: https://u:{}@h/",
    "Referer: https://h/?access_token={}",
    "Origin: https://u:{}@h",
    "Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.{}",
]
ANSWERED = [
    "Authentication-Info: nextnonce={}",
    "Location: https://h/#access_token={}&x=1",
    "Link: <https://u:{}@h/>; rel=next",
]
TARGETS = """
    /?api_key={} /?a=1&ACCESS-TOKEN={}&b=2 /#access_token={} /a;password={} /?user[password]={}
    /?password[]={} /?token={} /?Token={} http://user:{}@example.org/x http://{}@example.org/x
    http://u:p@{}@example.org/ /?x=1?token={} /?x=1&amp;token={} /login/password={}/x
    /?pass+word={} /?next=https%3A%2F%2Fu%3A{}%40h%2F /?next=https%3a%2f%2fu%3a{}%40h%2f
    /?next=/a?token%3D{} /?u=https%253A%252F%252Fu%253A{}%2540h /?X-Amz-Signature={}
    /?X-Amz-Security-Token={} /?sig={} /?id_token={}
"""
SCHEMES = """
    postgres postgresql+psycopg2 mongodb+srv redis amqp mysql ftp sftp git+https HTTPS ldap smtp
    svn+ssh
"""
VALUES: list[object] = [
    *({name: SECRET} for name in ("password", "accessToken", "access-token", "PASSWORD", "token")),
    *({name: SECRET} for name in ("dbPasswordOld", "Token", "pass", "api key", "privateKey")),
    *({name: SECRET} for name in ("refresh_token", "sessionToken", "csrfToken", "credentials")),
    *({name: SECRET} for name in ("auth", "authorization", "cookie", "jwt", "bearer", "apikey")),
    *({name: SECRET} for name in ("X-Api-Key", "clientKey", "auth_key", "SecretAccessKey")),
    *({name: SECRET} for name in ("SessionToken", "authenticityToken", "PGPASSWORD", "_authToken")),
    *({name: SECRET} for name in ("password_hash", "k" * 500 + "password", "password" + "k" * 500)),
    *({"password": before + SECRET} for before in ('a"', 'a\\"', "\u00e9", "\u2028", "a" * 65_000)),
    {"password": SECRET + "\\"},
    {"password": "", "pwd": SECRET},
    {"password": None, "secret": SECRET},
    {"password": ["a", SECRET]},
    {"password": ["a]b", SECRET]},
    {"password": {"value": SECRET}},
    {"passwords": [["a"], [SECRET]]},
    {"tokens": [SECRET]},
    {"credentials": {"user": "x", "key": SECRET}},
    {"credentials": {"user": {"n": "u"}, "key": SECRET}},
    {"a": {"b": [{"password": SECRET}]}},
    {"x": json.dumps({"password": SECRET})},
    {"x": json.dumps({"password": 'a"' + SECRET})},
    {"x": json.dumps({"password": [SECRET]})},
    {"x": json.dumps({"credentials": {"user": "u", "key": SECRET}})},
    {"x": json.dumps({"y": json.dumps({"password": SECRET})})},
    {"x": json.dumps({"y": f"https://u:{SECRET}@h/"}).replace("/", "\\/")},
    {"query": f'mutation {{ login(user: "x", password: "{SECRET}") {{ id }} }}'},
    {"query": "mutation($p:String!){login(password:$p){id}}", "variables": {"password": SECRET}},
    [{"name": "password", "value": SECRET}],
]
LAYOUTS: dict[str, Callable[[object], str]] = {
    "usual": json.dumps,
    "small": lambda value: json.dumps(value, separators=(",", ":")),
    "wide": lambda value: json.dumps(value, ensure_ascii=False, indent=4),
}
BODIES = [
    *(f"connect {scheme}://user:{{}}@db/x now" for scheme in SCHEMES.split()),
    "redis://:{}@h:6379/0",
    "https://u:ab/{}@h/x",
    r'{{"x": "https:\/\/u:{}@h\/"}}',
    "u=https%3A%2F%2Fu%3A{}%40h",
    '{{"password"\n\t :\r\n  "{}"}}',
    "{{'password': '{}'}}",
    '{{password: "{}"}}',
    '{{"a":1}}\n{{"password":"{}"}}\n',
    '\ufeff{{"password": "{}"}}',
    '{{"password":' + " " * 5000 + '"{}"}}',
    *("user=x&password={}", "password={}&x=1", "password= {}&x", "password=%41{}"),
    *("user%5Bpassword%5D={}", "new+password={}", "a=1;password={}", "a=1\r\npassword={}\r\n"),
    *("password: {}", "password: {}\n", "password = {}\n", "export DB_PASSWORD={}\n"),
    *('password="{}"', 'password="a b {}"', "client_assertion={}", "SAMLResponse={}"),
]


def message(start: str, body: bytes = b"", *fields: str) -> bytes:
    lines = [start, "Host: example.org", *fields, f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode("latin-1") + body


def post(body: bytes, *fields: str) -> list[Step]:
    return [(WRITE, message("POST / HTTP/1.1", body, *fields)), (READ, OK)]


def answer(body: bytes, *fields: str) -> list[Step]:
    return [(WRITE, message("GET / HTTP/1.1")), (READ, message("HTTP/1.1 200 OK", body, *fields))]


def in_chunks(body: bytes, size: int, field: bytes = b"Host: h") -> list[Step]:
    pieces = (body[at : at + size] for at in range(0, len(body), size))
    sent = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    head = b"POST / HTTP/1.1\r\n" + field + b"\r\ntransfer-encoding:  Chunked\r\n\r\n"
    return [(WRITE, head + sent + b"0\r\n\r\n"), (READ, OK)]


def assert_blanked(steps: list[Step], secret: str = SECRET) -> None:
    """Assert that no part of the secret that tells anything stays, and that the lengths do."""
    longest = max(len(data) for _, data in steps if isinstance(data, bytes))
    for size in (1 << 20, 7, 1) if longest < 8192 else (1 << 20, 1000):
        cut: list[Step] = [
            (side, data[at : at + size])
            for side, data in steps
            if isinstance(data, bytes)
            for at in range(0, len(data), size)
        ]
        received, _ = redact(cut)
        for side in (WRITE, READ):
            shown = received.plaintext(side)
            assert len(shown) == len(joined(steps, side))
            assert secret[-6:].encode() not in shown, size


def test_what_is_no_secret_would_be_found() -> None:
    with pytest.raises(AssertionError):
        assert_blanked(post(f"note={SECRET}".encode()))


@pytest.mark.parametrize("field", FIELDS)
def test_fields_of_heads(field: str) -> None:
    assert_blanked(post(b"{}", field.format(SECRET)))
    assert_blanked(answer(b"{}", field.format(SECRET)))


@pytest.mark.parametrize("field", ANSWERED)
def test_fields_of_responses(field: str) -> None:
    assert_blanked(answer(b"{}", field.format(SECRET)))


@pytest.mark.parametrize("target", TARGETS.split())
def test_targets(target: str) -> None:
    asked = message(f"GET {target.format(SECRET)} HTTP/1.1")
    assert_blanked([(WRITE, asked), (READ, OK)])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("value", VALUES, ids=lambda value: repr(value)[:60])
def test_json(value: object, layout: str) -> None:
    body = LAYOUTS[layout](value).encode()
    for make in (post, answer):
        assert_blanked(make(body, "Content-Type: application/json"))


@pytest.mark.parametrize("body", BODIES, ids=lambda body: repr(body)[:60])
@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded"])
def test_bodies(body: str, kind: str) -> None:
    assert_blanked(post(body.format(SECRET).encode(), f"Content-Type: {kind}"))


PASSWORD = json.dumps({"password": SECRET}).encode()
HEAD = message("POST / HTTP/1.1", b"", f"Authorization: {SECRET}")
NUMBER = "98765432109"


@pytest.mark.parametrize("body", [{"password": int(NUMBER)}, {"x": f'{{"password":{NUMBER}}}'}])
def test_numbers(body: object) -> None:
    assert_blanked(post(json.dumps(body).encode(), "Content-Type: application/json"), NUMBER)


KEY = f"""-----BEGIN EC PARAMETERS-----
BggqhkjOPQMBBw==
-----END EC PARAMETERS-----
-----BEGIN EC PRIVATE KEY-----
MHcCAQEE{SECRET}
-----END EC PRIVATE KEY-----
"""
PART = '--XbX\r\nContent-Disposition: form-data; name="private_key"{}\r\n\r\n{}\r\n--XbX--\r\n'


@pytest.mark.parametrize("before", ["", "preamble\r\n"])
@pytest.mark.parametrize("fields", ["", '; filename="k.pem"\r\nContent-Type: text/plain'])
@pytest.mark.parametrize("value", [SECRET, KEY, f"a\r\n--Xb\r\n{SECRET}", f"1\r\n{SECRET}\r\n3"])
def test_parts(value: str, fields: str, before: str) -> None:
    body = (before + PART.format(fields, value)).encode()
    assert_blanked(post(body, "Content-Type: multipart/form-data; boundary=XbX"))


CHUNKS = b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
TRAILER = f"Authorization: {SECRET}\r\n\r\n".encode()
ASKED = b"GET / HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
SWITCHED = b"HTTP/1.1 101 Y\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
CODED: dict[str, list[Step]] = {
    "in UTF-16": post(json.dumps({"password": SECRET}).encode("utf-16")),
    "in chunks of 1": in_chunks(PASSWORD, 1),
    "in chunks of 3": in_chunks(PASSWORD, 3),
    "in chunks of 7": in_chunks(PASSWORD, 7),
    "in chunks, with a length": in_chunks(PASSWORD, 3, b"Content-Length: 5"),
    "identity": post(PASSWORD, "Content-Encoding: identity"),
    "lines of events": answer(b'data: {"access_token":\ndata: "%b"}\n\n' % SECRET.encode()),
    "line feeds alone": [(WRITE, HEAD.replace(b"\r\n", b"\n")), (READ, OK)],
    "HTTP/1.0": [(WRITE, HEAD.replace(b"HTTP/1.1", b"HTTP/1.0")), (READ, OK)],
    "an unknown method": [(WRITE, HEAD.replace(b"POST", b"FROBNICATE")), (READ, OK)],
    "empty lines before a head": [(WRITE, b"\r\n\r\n" + HEAD), (READ, OK)],
    "HTTP/0.9": [(WRITE, f"GET /?token={SECRET}\r\n".encode()), (READ, b"ok")],
    "pipelined": [(WRITE, HEAD + HEAD), (READ, OK + OK)],
    "a trailer": [(WRITE, CHUNKS + b"2\r\nok\r\n0\r\n" + TRAILER), (READ, OK)],
    "an extension of a chunk": [
        (WRITE, CHUNKS + f"2;token={SECRET}\r\nok\r\n0\r\n\r\n".encode()),
        (READ, OK),
    ],
    "an informational response": [
        (WRITE, message("POST / HTTP/1.1", b"{}", "Expect: 100-continue")),
        (READ, f"HTTP/1.1 103 Early Hints\r\nSet-Cookie: a={SECRET}\r\n\r\n".encode() + OK),
    ],
    "a response of SHOUTcast": [
        (WRITE, message("GET / HTTP/1.1")),
        (READ, f"ICY 200 OK\r\nSet-Cookie: {SECRET}\r\n\r\nbody".encode()),
    ],
}


@pytest.mark.parametrize("name", CODED)
def test_odd_messages(name: str) -> None:
    assert_blanked(CODED[name])


def frames(sizes: list[int], data: bytes, opcode: int, *, is_masked: bool) -> bytes:
    """Return a message of WebSocket in fragments of these sizes, and the rest in a last one."""
    mask, at, sent = b"abcd" if is_masked else b"", 0, b""
    for number, size in enumerate([*sizes, len(data) - sum(sizes)]):
        piece = data[at : at + size]
        at += size
        first = (0x80 if number == len(sizes) else 0) | (0 if number else opcode)
        sent += bytes((first, 0x80 * is_masked | len(piece))) + mask
        sent += unmask(piece, mask, 0) if is_masked else piece
    return sent


@pytest.mark.parametrize("sizes", [[], [9, 9], [1] * 20])
@pytest.mark.parametrize("opcode", [1, 2, 8, 9])
@pytest.mark.parametrize("side", [WRITE, READ])
def test_messages_of_websocket(side: Direction, opcode: int, sizes: list[int]) -> None:
    data = b"\x03\xe8password=" + SECRET.encode() if opcode > 7 else PASSWORD
    sent = frames([] if opcode > 7 else sizes, data, opcode, is_masked=side is WRITE)
    steps: list[Step] = [(WRITE, ASKED), (READ, SWITCHED), (side, sent)]
    received, _ = redact(steps)
    sides = {WRITE: Side.CLIENT, READ: Side.SERVER}
    wire: list[wires.Step] = [(sides[each.direction], each.data) for each in received.chunks]
    found = wires.run(Detector(from_start=True), wire)
    assert sum(len(each.data) for each in received.chunks) == len(ASKED + SWITCHED + sent)
    assert isinstance(found[-1], WebSocketMessage)
    assert SECRET[-6:] not in repr(found)
