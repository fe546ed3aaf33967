"""Bodies with a secret wherever their format has room for one."""

import gzip
import json
import struct
from collections.abc import Callable
from urllib.parse import quote, quote_plus

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
    return draw(st.sampled_from(["", " ", "\n  ", " " * 150]))  # 11 of them in a pair: under 2 KiB


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


def _graphql(draw: st.DrawFn) -> str:
    """An operation with a secret as an argument, or as the default value of a variable."""
    name = draw(st.sampled_from(["password", "token", "apiKey", "clientSecret", "pass"]))
    text = draw(st.sampled_from([f'"{SECRET}"', f'"""{SECRET}"""', f'["{SECRET}"]']))
    inner = f"{name}{_spaced(draw)}:{_spaced(draw)}{text}"
    kind = draw(st.sampled_from(["String", "String!", "[String!]!"]))
    return draw(
        st.sampled_from(
            [
                f"mutation {{ login(input: {{{inner}}}) {{ id }} }}",
                f"mutation {{ login({inner}, user: 1) {{ id }} }}",
                f"query Q($user: Int, ${name}: {kind} = {text}) {{ id }}",
                f"query Q(${name}:{kind}={text}){{id}}",
            ]
        )
    )


def graphql(draw: st.DrawFn) -> Body:
    return "application/json", json.dumps({"query": _graphql(draw)}).encode()


def graphql_in_form(draw: st.DrawFn) -> Body:
    encoded = draw(st.sampled_from([quote, quote_plus]))(_graphql(draw), safe="")
    return "application/x-www-form-urlencoded", f"query={encoded}&last={SHOWN}".encode()


def pairs(draw: st.DrawFn) -> Body:
    """The name and the value are members of an object, in any order and with others between."""
    members = {draw(st.sampled_from(["name", "key"])): draw(st.sampled_from(NAMES))}
    members |= {"value": _around(draw), "type": "text", "enabled": "true"}
    drawn = draw(st.permutations([*members.items()]))
    separators = (f"{_spaced(draw)},", f"{_spaced(draw)}:{_spaced(draw)}")
    text = json.dumps([dict(drawn), {"name": "note", "value": SHOWN}], separators=separators)
    for _ in range(draw(st.integers(0, 2))):
        text = json.dumps({"inner": text, "last": SHOWN})
    return "application/json", text.encode()


def arrays(draw: st.DrawFn) -> Body:
    text = json.dumps([["Accept", SHOWN], [draw(st.sampled_from(NAMES)), _around(draw)]])
    return "application/json", text.encode()


def attributes(draw: st.DrawFn) -> Body:
    name = draw(st.sampled_from(NAMES))
    given = [f'{draw(st.sampled_from(["name", "key"]))}="{name}"', f'value="{SECRET}"']
    tag = " ".join(draw(st.permutations([*given, 'type="hidden"', "required"])))
    text = f"<p>{SHOWN}<input {tag}{draw(st.sampled_from(['', '/', ' /']))}>{SHOWN}</p>"
    if draw(st.booleans()):
        return "application/json", json.dumps({"html": text}).encode()
    return "text/html", text.encode()


def yaml(draw: st.DrawFn) -> Body:
    name = draw(st.sampled_from(["password", "db-password", "client_secret", "api_key", "token"]))
    before = draw(st.sampled_from(["  ", "- ", "  - ", ""]))
    value = draw(st.sampled_from([SECRET, f'"{SECRET}"', f"|\n        {SECRET}\n        {SECRET}"]))
    return "application/yaml", f"a:\n{before}{name}: {value}\nlast: {SHOWN}\n".encode()


def grpc_web(draw: st.DrawFn) -> Body:
    """A message, and trailers of which the first is a secret."""
    message = draw(st.binary(max_size=40))
    shown = SHOWN * draw(st.integers(0, 900))
    trailers = f"x-auth-token: {SECRET}\r\nx-shown: {shown}\r\n".encode()
    framed = struct.pack(">BI", 0, len(message)) + message
    return "application/grpc-web", framed + struct.pack(">BI", 0x80, len(trailers)) + trailers


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
        graphql_in_form,
        pairs,
        arrays,
        attributes,
        yaml,
        grpc_web,
        form,
        multipart,
        xml,
        url,
        tokens,
        packed,
        events,
    )
}
