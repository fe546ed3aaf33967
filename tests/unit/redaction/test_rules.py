"""What counts as a secret: header fields, parts of forms, and URLs."""

import pytest
from hpack import Decoder, Encoder

from sslsniff.redaction.patterns import is_secret_header
from sslsniff.redaction.rules import Rules
from tests.unit.captures import WRITE, Step
from tests.unit.linear import assert_linear
from tests.unit.redaction.test_redaction import redact
from tests.unit.redaction.traffic import http2_frames

CREDENTIALS = """
    Authorization Proxy-Authorization X-Authorization X-Original-Authorization
    X-MS-Authorization-Auxiliary Cookie Set-Cookie Cookie2 Set-Cookie2
    X-Auth-Token X-Access-Token X-Amz-Security-Token X-Vault-Token X-CSRF-Token X-CSRFToken
    X-XSRF-TOKEN PRIVATE-TOKEN JOB-TOKEN Deploy-Token X-Gitlab-Token X-Shopify-Access-Token
    X-Figma-Token
    X-Goog-IAM-Authorization-Token X-Forwarded-Access-Token X-aws-ec2-metadata-token X-Plex-Token
    X-Telegram-Bot-Api-Secret-Token X-Amzn-Oidc-Accesstoken X-Ms-Token-Aad-Id-Token Token
    X-Api-Key Api-Key apikey X-ApiKey X-Goog-Api-Key DD-API-KEY DD-APPLICATION-KEY X-RapidAPI-Key
    Ocp-Apim-Subscription-Key X-Functions-Key X-Auth-Key X-Access-Key X-Master-Key
    X-Amz-Server-Side-Encryption-Customer-Key X-MS-Encryption-Key
    X-Client-Secret CF-Access-Client-Secret X-Webhook-Secret X-Password X-Auth X-Credentials
    X-Goog-IAP-JWT-Assertion Cf-Access-Jwt-Assertion X-Amzn-Oidc-Data X-JWT
    My.App.Token odd!#$%&'*+^`|~secret
"""
NO_CREDENTIALS = """
    Host Accept WWW-Authenticate Proxy-Authenticate Authentication-Info Sec-WebSocket-Key
    Idempotency-Key Surrogate-Key X-RateLimit-Remaining-Tokens Anthropic-RateLimit-Tokens-Limit
    X-Amz-Server-Side-Encryption-Customer-Key-MD5 Authority Author X-Author Content-Type ETag
    :path :authority X-Auth-Request-User X-Secretary Passenger X-Token-Count
"""

URLS = [
    "https://{user:pass}@host/p?q=1#f",
    "https://{ghp_0123456789}@host",
    "https://{user:p@ss:w@rd}@host:8443/p",
    "redis://{:pass}@[::1]:6379/0",
    "svn+ssh://{us%40er:pa!$&'()*+,;=ss}@host",
    r"https:\/\/{user:pass}@host\/",
    r"https:\\/\\/{user:pass}@host\\/",
    "https%3A%2F%2F{user%3Apa%40ss}%40host%2Fp",
    "https%3a%2f%2f{user:pass}@host",
    "https%3A//{user%3Apass}%40host/p",
    "https://{u:ab/cd}@host/p",
    "https://{u:a?b#c/d}@host/p",
    r"https:\/\/{u:ab\/cd}@host\/p",
    "https%3A%2F%2F{u%3Aab%2Fcd}%40host%2Fp",
    "https://host:8443/a@b",
    "https://host:/a@b",
    "https%3A%2F%2Fhost%3A8443%2Fa%40b",
    "https://host/@user",
    "https://host/a:b@c",
    "https://host?a=b@c",
    "https://host#b@c",
    "https%3A%2F%2Fhost%2F%40user%40",
    '"https://host","a@b"',
    "https://host a@b",
    "mailto:user@host // user@host :/user@host",
]

FIELDS = [
    "pass+word={}&x=y",
    "pass%20word={}&x=y",
    "new+api+key={}&x=y",
    "password+again={}&x=y",
    "password%20again={}&x=y",
    "user%5Bpassword%5D={}&x=y",
    "next=/a?password%3D{}%26x%3Dy",
    "data=%7B%22password%22%3A%22{}%22%2C%22x%22%3A%22y%22%7D&x=y",
    "data=%7B%22x%22%3A%22%7B%5C%22token%5C%22%3A%20%5C%22{}%5C%22%7D%22%7D&x=y",
    "data=%257B%2522client_secret%2522%253A%2522{}%2522%257D&x=y",
    'Digest nextnonce="{}", qop=auth',
    '{{"Password again": "{}", "x": "y"}}',
    '{{"api key": "{}", "x": "y"}}',
    'mutation {{ login(password: """{}""", x: "y") }}',
    '{{"query": "mutation {{ login(password: \\"\\"\\"{}\\"\\"\\") {{ id }} }}"}}',
    'query Q($password: String = "{}", $x: Int = 1) {{ x }}',
    'query Q($password : String! = "{}") {{ x }}',
    '{{"query": "query Q($password: String = \\"{}\\") {{ x }}"}}',
    "query=mutation%7Blogin%28password%3A%22{}%22%29%7Bid%7D%7D&x=y",
    "query=mutation+%7Blogin%28password%3A+%22{}%22%2C+x%3A+1%29%7Bid%7D%7D&x=y",
    "query={{login(password:%20%22{}%22,x:1){{id}}}}&x=y",
    "query=%7Blogin%28password%3A%22%22%22{}%22%22%22%29%7Bid%7D%7D&x=y",
    "query=query+Q%28%24password%3A+String%21+%3D+%22{}%22%29+%7Bx%7D&x=y",
    "query=query%20Q(%24password:String=%22{}%22)%20%7Bx%7D&x=y",
    'password = """{}"""\nx = """y"""',
    "password = '''{}'''\nx = 'y'",
    '{{"key": "password", "type": "text", "value": "{}"}}',
    '{{"key":"token","enabled":true,"id":"a-1","value":"{}","x":1}}',
    '{{"value": "{}", "name": "password", "x": 1}}',
    '[{{"value":"y","name":"x"}},{{"value":"{}","type":"text","key":"X-Api-Key"}}]',
    '{{"q": "{{\\"value\\": \\"{}\\", \\"name\\": \\"password\\"}}", "x": "y"}}',
    '<add key="password" value="{}"/><add key="x" value="y"/>',
    "<input type='hidden' name='csrf_token' id='a' value='{}'>",
    '<add value="{}" key="password" /><add value="y" key="x"/>',
    '<input id="a" value="{}" type="hidden" required name="csrf_token">',
    '{{"html": "<input name=\\"csrf_token\\" value=\\"{}\\">", "x": "y"}}',
    '[["Authorization","{}"],["Accept","x"]]',
    '[["Accept", "x"], [ "Cookie", "{}" ]]',
    '{{"headers": "[[\\"Accept\\", \\"x\\"], [\\"Cookie\\", \\"{}\\"]]"}}',
    "a:\n  password: {}\n  user: x\n",
    "- user: x\n- password: {}\n- x: y\n",
]
"""Forms of fields with a secret."""

PARTS = [
    'form-data; name="password"',
    "form-data; name=password",
    "form-data; name=password; filename=x",
    "form-data;name=password",
    "form-data; NAME = Password",
    'form-data; name\t=\r\n "user[new_password]"',
    "form-data;\r\n\tname=client-secret;x=y",
    "form-data; name*=UTF-8''password",
    "form-data; name*=utf-8'en'pass%20word_token; name=auth_token",
    "form-data; name*=\"UTF-8''api_key\"",
    'form-data; name*0="pass"; name*1="word"',
    "form-data; name*0*=UTF-8''pa; name*1*=ss",
    "form-data; name='passwd'",
    'form-data; filename="' + 300 * "x" + '"; name=pwd',
    'form-data; name=token; filename="' + 300 * "x" + '"',
]


def blanked(sent: bytes) -> bytes:
    """Return what becomes of what a client sends."""
    told, _ = redact([(WRITE, sent)])
    return told.plaintext(WRITE)


def post(body: bytes, fields: bytes = b"") -> bytes:
    return b"POST / HTTP/1.1\r\n%bContent-Length: %d\r\n\r\n%b" % (fields, len(body), body)


def over_http2(name: str, value: str, *, huffman: bool) -> str:
    """Return what becomes of a header field's value."""
    fields = [(":method", "GET"), (name, value)]
    told, _ = redact([(WRITE, http2_frames(Encoder().encode(fields, huffman=huffman)))])
    [*_, (_, found)] = Decoder().decode(told.plaintext(WRITE)[24 + 9 + 9 :])
    assert isinstance(found, str)
    assert len(found) == len(value)
    return found


@pytest.mark.parametrize("name", CREDENTIALS.split())
def test_headers_that_are_credentials(name: str) -> None:
    assert is_secret_header(name)
    head = f"GET / HTTP/1.1\r\n{name}: one two\r\n{name.swapcase()}:three\r\nX: four\r\n\r\n"
    told = blanked(head.encode()).decode()
    assert told == head.replace("one two", "*******").replace("three", "*****")
    assert over_http2(name.lower(), "one two", huffman=False) == "*******"
    assert set(over_http2(name.lower(), "one two", huffman=True)) <= set("*x-0")


@pytest.mark.parametrize("name", NO_CREDENTIALS.split())
def test_headers_that_are_none(name: str) -> None:
    assert not is_secret_header(name)
    assert over_http2(name.lower(), "one two", huffman=False) == "one two"
    if name[0] != ":":
        head = f"GET / HTTP/1.1\r\n{name}: one two\r\n\r\n".encode()
        assert blanked(head) == head


@pytest.mark.parametrize("url", URLS)
def test_userinfo_in_urls(url: str) -> None:
    """It is between braces here; without, nothing is secret."""
    before, brace, rest = url.partition("{")
    secret, _, behind = rest.partition("}")
    sent = before + secret + behind
    expected = before + "*" * len(secret) + behind
    for form in (
        "GET / HTTP/1.1\r\nX: /there?to={}\r\n\r\n",
        "GET / HTTP/1.1\r\nReferer: {}\r\nX: y\r\n\r\n",
        'GET / HTTP/1.1\r\nLink: <{}>; rel="next"\r\n\r\n',
    ):
        assert blanked(form.format(sent).encode()).decode() == form.format(expected)
    for form in ("{}", '{{"url": "{}", "n": 1}}', "<a href='{}'> x@y", "a\n{}\nb@c", "x={}&y=z"):
        body, told = form.format(sent), form.format(expected)
        assert blanked(post(body.encode())) == post(told.encode())
    if " " not in sent:
        first = "GET / HTTP/1.1\r\nHost: h\r\n\r\n"  # proves that it is HTTP
        for target in (sent, f"/there?to={sent}"):
            head = f"GET {target} HTTP/1.1\r\nHost: h\r\n\r\n"
            told = blanked(f"{first}{head}".encode()).decode()
            assert told == first + head.replace(sent, expected)
    assert over_http2("location", sent, huffman=False) == expected
    assert bool(brace) == (over_http2("location", sent, huffman=True) != sent)


@pytest.mark.parametrize("field", FIELDS)
def test_fields(field: str) -> None:
    secret = "s3cr3t.value"
    for before in ("", "x=y&", "note: "):
        for size in (1, 7, 1000):
            sent = post((before + field.format(secret)).encode())
            steps: list[Step] = [(WRITE, sent[at : at + size]) for at in range(0, len(sent), size)]
            told, _ = redact(steps)
            expected = post((before + field.format("*" * len(secret))).encode())
            assert told.plaintext(WRITE) == expected


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize(
    "field",
    [
        'query Q($apiKey:[String!]!=["{}", "{}"]) {{ x }}',
        'mutation {{ login(password: """\n  "" \\""" {}""") }}',
        '{{"query": "mutation {{ login(password: \\"\\"\\"\\\\\\"\\"\\" {}\\"\\"\\") }}"}}',
        "query=%7Blogin%28password%3A%5B%22{}%22%2C%22{}%22%5D%29%7Bid%7D%7D",
        "query=(password" + 300 * "+" + "%3A%22{}%22)&last=x",  # the first % is far off
        "password: |\n  {}\n  {}\nuser: x\n",
        "a:\n  - password: >-\n      {}\n      {}\n",
    ],
)
def test_longer_fields(field: str, size: int) -> None:
    secret = "s3cr3t.value"
    sent = post(field.format(secret, secret).encode())
    told, _ = redact([(WRITE, sent[at : at + size]) for at in range(0, len(sent), size)])
    assert secret.encode() not in told.plaintext(WRITE)
    assert blanked(sent) == told.plaintext(WRITE)


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize(
    "body",
    [
        '[{"value": "shown", "name": "user"}, {"name": "password"}]',
        '[{"value": "shown"}, {"name": "password", "x": "shown"}]',
        '{"value": "shown", "hint": "password", "x": 1}',
        '{"a": {"value": "shown"}, "key": "token"}',
        '{"value": "%s", "name": "token"}' % ("shown " * 350),
        '["password", "shown", "shown"]',
        '<input name="user" value="shown"><input name="token"><b value="shown">',
        '<a value="shown"/><b key="token"/>',
        'query Q($token: String, $x: String = "shown"',
        "passwords: shown\n  user: shown\n",
    ],
)
def test_pairs_and_lines_that_are_no_secrets(body: str, size: int) -> None:
    sent = post(body.encode())
    told, _ = redact([(WRITE, sent[at : at + size]) for at in range(0, len(sent), size)])
    assert told.plaintext(WRITE) == sent


def test_a_line_that_continues_another_may_be_a_field() -> None:
    """RFC 9112 section 5.2; some servers read it as a field of its own."""
    head = b"GET / HTTP/1.1\r\nX: a\r\n Authorization: s3cr3t\r\nX: b\r\n\tX-Api-Key:s3cr3t\r\n\r\n"
    assert blanked(head) == head.replace(b"s3cr3t", b"******")


def test_userinfo_of_an_authority() -> None:
    """Without a scheme it is known in its places only."""
    head = b"CONNECT user:pass@host:443 HTTP/1.1\r\nHost: user:pass@host:443\r\nX: a@b\r\n\r\n"
    assert blanked(head) == head.replace(b"user:pass", b"*********")
    assert over_http2(":authority", "user:pass@host", huffman=False) == "*********@host"
    assert over_http2("host", "user:pass@host", huffman=False) == "*********@host"
    assert over_http2("from", "user@host", huffman=False) == "user@host"


@pytest.mark.parametrize("end", ["\r\n", "\n"])
@pytest.mark.parametrize("disposition", PARTS)
def test_parts_of_forms(disposition: str, end: str) -> None:
    lines = (
        *("--b", 'Content-Disposition: form-data; name="user"', "", "shown"),
        *("--b", f"content-disposition : {disposition}", "Content-Type: text/plain", ""),
        *("s3cr3t", "s3cr3t", "--b", "Content-Disposition: form-data; name=note", "", "shown", ""),
    )
    body = end.join(lines).encode()
    told = blanked(post(body))
    shown = body.replace(f"s3cr3t{end}s3cr3t".encode(), b"*" * (12 + len(end)))
    assert told == post(shown)


@pytest.mark.parametrize("name", ["user", "passenger", "tokens", "note"])
def test_parts_that_are_no_secrets(name: str) -> None:
    for form in (f"name={name}", f'name="{name}"', f"name*=UTF-8''{name}"):
        lines = ("--b", f"Content-Disposition: form-data; {form}", "", "shown", "--b--", "")
        sent = post("\r\n".join(lines).encode())
        assert blanked(sent) == sent


@pytest.mark.heavy
@pytest.mark.parametrize(
    "piece",
    [
        b"://a",
        b"name=",
        b"%3A%2F%2F",
        b":\\/\\/",
        b"a-",
        b"token ",
        b"\ntoken",
        b"@://",
        b"://a:b/",
        b"passwd",
        b"passwd_token",
        b"\\u0061",
        b"%61",
        b"eyj",
        b"eyjaaaa.eyj",
        b"<token ",
        b"name=token;",
        b'name="token',
        b'password":{',
        b'"token",',
        b'"value":"token",',
        b'"value":[{"token"',
        b'"value": "x","key":"token",',
        b'["token","',
        b'value="token" ',
        b'"token" a=b ',
        b"token:[a",
        b'token:"""',
        b"token%3A%22",
        b"token%22%3A%22",
        b"token%3A%5B",
        b"\x80\0token",
        b"\n  token:\n    ",
        b"\n - token",
    ],
)
def test_text_is_searched_in_linear_time(piece: bytes) -> None:
    """What begins like a secret, again and again, and never is one."""

    def search(text: bytearray) -> None:
        Rules(defaults=True).find(text)
        Rules(defaults=True).find_so_far(text, 0)

    search(bytearray(piece))  # what is made once
    assert_linear(
        lambda size: bytearray(piece * (size // len(piece)) + b"token@"),
        search,
        first_bytes=64 << 10,
        most_bytes=64 << 10,
        most_units_per_byte=15,
    )
