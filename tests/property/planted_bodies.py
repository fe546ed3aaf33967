"""Bodies with a secret wherever their format has room for one."""

import gzip
import json
from collections.abc import Callable
from urllib.parse import quote

import brotli
import zstandard
from hypothesis import strategies as st

SECRET = "S3cr3tQ7xyzzyK"
SHOWN = "not-secret-at-all"
NAMES = (
    *(
        "password",
        "Passwd",
        "dbPassword",
        "PGPASSWORD",
        "client_secret",
        "api_key",
        "apiKey",
        "auth",
    ),
    *("access_token", "refreshToken", "token", "authorization", "cookie", "jwt", "bearer", "pwd"),
    *("X-Api-Key", "private_key", "credentials", "secretAccessKey", "passphrase", "clientKey"),
)
BOUNDARY = "XbX"
NO_BOUNDARIES = ("XbXY", "XbX-", "XbX---", "xbx")
"""Lines that look like the boundary."""

CODINGS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda data: gzip.compress(data, mtime=0),
    "br": brotli.compress,
    "zstd": zstandard.compress,
}

Body = tuple[str, bytes]
"""A body with its type."""


def _spaced(draw: st.DrawFn) -> str:
    return draw(st.sampled_from(["", " ", "\n  ", " " * 200]))


def _around(draw: st.DrawFn) -> str:
    """The secret with what looks like the end of a value before or after it."""
    odd = st.sampled_from(
        ["", "a]b", 'a"b', "a\\", "}", "--", "\n--Xb\n", "é", "\u2028", "'", "a&b"]
    )
    return draw(odd) + SECRET + draw(odd)


def _escaped(text: str, name: str, draw: st.DrawFn) -> str:
    """A letter of the name, escaped, in the text of JSON."""
    at = draw(st.integers(0, len(name) - 1))
    hidden = f"{name[:at]}\\u{ord(name[at]):04x}{name[at + 1 :]}"
    return text.replace(f'"{name}"', f'"{hidden}"')


def _json(draw: st.DrawFn) -> str:
    name, value = draw(st.sampled_from(NAMES)), _around(draw)
    values: list[object] = [value, [value], [["a"], [value]], {"user": {"n": "u]"}, "key": value}]
    member: object = {"user": SHOWN, name: draw(st.sampled_from(values)), "last": SHOWN}
    member = draw(st.sampled_from([member, {"a": [member]}, [member, member]]))
    if draw(st.integers(0, 4)) == 0:
        member = [{"name": name, "value": value}]
    text = json.dumps(
        member,
        ensure_ascii=draw(st.booleans()),
        separators=(f"{_spaced(draw)},", f"{_spaced(draw)}:{_spaced(draw)}"),
    )
    if draw(st.integers(0, 3)) == 0:
        text = _escaped(text, name, draw)
    for _ in range(draw(st.integers(0, 2))):  # JSON in a string of JSON
        text = json.dumps({"inner": text, "last": SHOWN})
    return text


def json_body(draw: st.DrawFn) -> Body:
    return "application/json", _json(draw).encode()


def graphql(draw: st.DrawFn) -> Body:
    name = draw(st.sampled_from(["password", "token", "apiKey", "clientSecret", "pass"]))
    value = json.dumps(SECRET)
    inner = f"{{{name}{_spaced(draw)}:{_spaced(draw)}{value}}}"
    asked = draw(st.sampled_from([f"(input: {inner})", f"({inner[1:-1]}, user: 1)"]))
    return "application/json", json.dumps(
        {"query": f"mutation {{ login{asked} {{ id }} }}"}
    ).encode()


def form(draw: st.DrawFn) -> Body:
    name = draw(st.sampled_from(NAMES))
    at = draw(st.integers(-1, len(name) - 1))
    if at >= 0:  # a letter of it, escaped
        name = f"{name[:at]}%{ord(name[at]):02X}{name[at + 1 :]}"
    value = quote(_around(draw))
    name = draw(st.sampled_from([name, f"user[{name}]", f"user%5B{name}%5D"]))
    text = f"user={SHOWN}&{name}={value}&last={SHOWN}"
    return "application/x-www-form-urlencoded", text.encode()


def _longer_boundary(named: str) -> str:
    """A value with another part for parsers to which a longer line is the boundary, too."""
    return f"{SHOWN}\r\n--{BOUNDARY}Y\r\nContent-Disposition: form-data; {named}\r\n\r\n{SECRET}"


def multipart(draw: st.DrawFn) -> Body:
    name = draw(st.sampled_from(NAMES))
    named = draw(st.sampled_from([f'name="{name}"', f"name={name}", f"name*=UTF-8''{name}"]))
    file = draw(st.sampled_from(["", '; filename="k.pem"']))
    kind = draw(st.sampled_from(["", "Content-Type: text/plain\r\n"]))
    before = draw(
        st.sampled_from(
            ["", "line\r\n", "-----BEGIN KEY-----\r\n", "\r\n\r\n", "--X\r\n"]
            + [f"line\r\n--{each}\r\n" for each in NO_BOUNDARIES]
            + [f"line\n--{BOUNDARY}\n"]
        )
    )
    user = draw(st.sampled_from([SHOWN, _longer_boundary(named)]))
    parts = (
        f'Content-Disposition: form-data; name="user"\r\n\r\n{user}',
        f"Content-Disposition: form-data; {named}{file}\r\n{kind}\r\n{before}{_around(draw)}",
        f'Content-Disposition: form-data; name="note"\r\n\r\n{SHOWN}',
    )
    text = "".join(f"--{BOUNDARY}\r\n{part}\r\n" for part in parts) + f"--{BOUNDARY}--\r\n"
    kinds = [f"multipart/form-data; boundary={BOUNDARY}", f'Multipart/Mixed; Boundary="{BOUNDARY}"']
    return draw(st.sampled_from([*kinds, "text/plain"])), text.encode()


def xml(draw: st.DrawFn) -> Body:
    name = draw(st.sampled_from(["password", "wsse:Password", "ns:ApiKey", "credentials", "token"]))
    inner = draw(st.sampled_from([SECRET, f"<![CDATA[{SECRET}]]>", f"<u>a</u><key>{SECRET}</key>"]))
    element = f'<{name} Type="x">{inner}</{name}>'
    attribute = f'<login user="u" password="{SECRET} {SECRET}"/>'
    text = f"<a>{SHOWN}{draw(st.sampled_from([element, attribute]))}{SHOWN}</a>"
    return "text/xml", text.encode()


def url(draw: st.DrawFn) -> Body:
    where = f"https://user:{SECRET}@example.org/?access_token={SECRET}"
    for _ in range(draw(st.integers(0, 2))):
        where = quote(where, safe="")
    return "text/plain", f"see {where} {SHOWN}".encode()


def tokens(draw: st.DrawFn) -> Body:
    jwt = f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIx{SECRET}.{SECRET}"
    return "text/plain", draw(st.sampled_from([f"x {jwt} y", f"x Bearer {SECRET} y"])).encode()


def packed(draw: st.DrawFn) -> Body:
    coding = draw(st.sampled_from(list(CODINGS)))
    return coding, CODINGS[coding](_json(draw).encode())


def json_in_form(draw: st.DrawFn) -> Body:
    value = quote(json.dumps({"user": SHOWN, draw(st.sampled_from(NAMES)): SECRET}), safe="")
    if draw(st.booleans()):
        value = quote(value, safe="")
    return "application/x-www-form-urlencoded", f"data={value}&last={SHOWN}".encode()


def events(draw: st.DrawFn) -> Body:
    name = draw(st.sampled_from(NAMES))
    text = f'data: {{"user": 1, "{name}":\ndata: "{SECRET}"}}\n\ndata: {SHOWN}\n\n'
    return "text/event-stream", text.encode()


BODIES: dict[str, Callable[[st.DrawFn], Body]] = {
    each.__name__: each
    for each in (
        json_body,
        json_in_form,
        graphql,
        form,
        multipart,
        xml,
        url,
        tokens,
        packed,
        events,
    )
}
