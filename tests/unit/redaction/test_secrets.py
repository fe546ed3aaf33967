"""What is known of each blanked secret: where it was, what found it, its fingerprint."""

from collections import Counter
from dataclasses import replace

import pytest
import regex

from sslsniff.core.model import Chunk
from sslsniff.core.redacted import NO_MESSAGE, OTHERS, RedactedSecret
from sslsniff.decoders.http2.frames import HEADERS, PREFACE, SETTINGS
from sslsniff.redaction.fingerprints import Fingerprints, texts_of
from sslsniff.redaction.redactor import Redactor
from sslsniff.redaction.rules import Rules
from tests.property.test_redacted_secrets import marks
from tests.unit.captures import READ, WRITE, Step
from tests.unit.decoders.wires import frame
from tests.unit.exchanges import connection
from tests.unit.redaction.test_redaction import Received

TOKEN = "npm_live_0123456789abcdef"


def found(steps: list[Step], *patterns: str) -> list[RedactedSecret]:
    rules = Rules(defaults=True, patterns=[regex.compile(each.encode()) for each in patterns])
    return [secret for (_, secret), count in marks(steps, rules).items() for _ in range(count)]


def post(body: str, head: str = "") -> list[Step]:
    sent = f"POST /a HTTP/1.1\r\n{head}Content-Length: {len(body)}\r\n\r\n{body}"
    return [(WRITE, sent.encode())]


def named(secrets: list[RedactedSecret]) -> list[tuple[str, str, str | None]]:
    return [(secret.where, secret.name, secret.pattern) for secret in secrets]


@pytest.mark.parametrize(
    ("head", "body", "expected"),
    [
        ("Authorization: Bearer abcdefghij\r\n", "", [("request header", "authorization")]),
        ("PRIVATE-TOKEN: abcdefghij\r\n", "", [("request header", "private-token")]),
        ("Referer: https://u:abcdefghij@h/\r\n", "", [("request header", "userinfo")]),
        ("", '{"env": {"NPM_AUTH": "abcdefghij"}}', [("request body", "NPM_AUTH")]),
        ("", '{"a": "{\\"clientSecret\\": \\"abcdefghij\\"}"}', [("request body", "clientSecret")]),
        ("", '{"key": "password", "value": "abcdefghij"}', [("request body", "password")]),
        ("", "user=a&user%5Bpassword%5D=abcdefghij&b=1", [("request body", "password%5D")]),
        ("", "a=1&x%26token=abcdefghij", [("request body", "token")]),
        ("", "<a><ns:ApiKey>abcdefghij</ns:ApiKey></a>", [("request body", "ApiKey")]),
        ("", "a:\n  db-password: abcdefghij\nb: 1\n", [("request body", "db-password")]),
        ("", "x Bearer abcdefghij y", [("request body", "bearer")]),
        ("", "see eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIx.abc here", [("request body", "jwt")]),
        ("", '{"p\\u0061ssword": "abcdefghij"}', [("request body", "p\\u0061ssword")]),
    ],
)  # fmt: skip
def test_a_secret_has_the_name_of_what_it_is_the_value_of(
    head: str, body: str, expected: list[tuple[str, str]]
) -> None:
    assert [secret[:2] for secret in found(post(body, head))] == expected


def test_the_target_is_a_place_of_its_own() -> None:
    steps: list[Step] = [(WRITE, b"GET /?a=1&api_key=abcdefghij HTTP/1.1\r\nCookie: a=b\r\n\r\n")]
    assert [secret[:2] for secret in found(steps)] == [
        ("request url", "api_key"),
        ("request header", "cookie"),
    ]


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        (r"[a-z]+_live_[0-9a-f]{16}", "pattern 1"),
        (r"(?P<npm>[a-z]+_live_[0-9a-f]{16})", "npm"),
        (r"(?P<secret>[a-z]+_live_[0-9a-f]{16})(?P<npm>)", "npm"),
    ],
)
def test_a_pattern_is_named_beside_the_field(pattern: str, name: str) -> None:
    body = f'{{"env": {{"NPM_AUTH": "{TOKEN}", "HOME": "/{TOKEN}"}}, "n": 1}}'
    in_field, elsewhere = found(post(body), pattern)
    assert named([in_field]) == [("request body", "NPM_AUTH", name)]
    assert (elsewhere.name, elsewhere.pattern) == (name, name)
    assert in_field.fingerprint == elsewhere.fingerprint is not None
    [in_header] = found(post("", f"X-Other: a {TOKEN}\r\n"), pattern)
    assert (in_header.name, in_header.pattern) == ("x-other", name)


def test_a_secret_that_several_rules_find_counts_once() -> None:
    jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIx.abc"
    steps = post(f'{{"access_token": "{jwt}"}}', f"Authorization: Bearer {jwt}\r\n")
    assert named(found(steps)) == [
        ("request header", "authorization", None),
        ("request body", "access_token", None),
    ]  # fmt: skip


def test_each_match_of_a_pattern_counts_by_itself() -> None:
    steps = post("", "Cookie: a=k-11111111; b=k-22222222; c=k-11111111\r\n")
    secrets = found(steps, r"k-\d{8}")
    assert named(secrets) == 3 * [("request header", "cookie", "pattern 1")]
    assert sorted(Counter(each.fingerprint for each in secrets).values()) == [1, 2]


def test_a_name_that_is_blanked_is_not_shown() -> None:
    [secret, other] = found(post("hush-password=abcdefghij&b=1"), r"hush-[a-z]+")
    assert (secret.pattern, other.name) == ("pattern 1", "field")


@pytest.mark.parametrize("cut_at", range(3))
def test_a_name_that_a_pattern_blanks_later_is_not_shown(cut_at: int) -> None:
    """The pattern needs more bytes than the field to match."""
    body = b"{BEGIN password=abcdefghij; more END} and so on"
    place = (20, 28, 32)[cut_at]
    head = b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body)
    steps: list[Step] = [(WRITE, head + body[:place]), (WRITE, body[place:])]
    assert {secret.name for secret in found(steps, r"BEGIN[^}]*END")} == {"pattern 1"}


def test_short_and_incomplete_secrets_have_no_fingerprint() -> None:
    [pin] = found(post('{"password": "1234567"}'))
    [long] = found(post('{"password": "12345678"}'))
    assert pin.fingerprint is None
    assert long.fingerprint is not None
    cut_off: list[Step] = [
        (WRITE, b'POST / HTTP/1.1\r\nContent-Length: 99\r\n\r\n{"password": "12345678')
    ]
    [rest] = found(cut_off)
    assert (rest.name, rest.fingerprint) == ("password", None)
    lost: list[Step] = [(WRITE, b"GET / HTTP/1.1\r\nAuthorization: Bearer 123456789")]
    assert found(lost) == []


def test_what_was_blanked_before_has_no_fingerprint() -> None:
    for blank in (b"**********", b"xxxx---00"):
        steps: list[Step] = [(WRITE, b"GET / HTTP/1.1\r\nAuthorization: " + blank + b"\r\n\r\n")]
        assert [secret.fingerprint for secret in found(steps)] == [None]


def test_an_entry_of_the_table_is_the_same_secret_each_time() -> None:
    """Later requests of HTTP/2 only refer to the entry (RFC 7541 section 2.3.2)."""
    add = b"\x82\x84\x87\x41\x01h" + b"\x40\x0dauthorization\x10Bearer abcdefghi"
    again = b"\x82\x84\x87\xbf\xbe"
    wire = PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS, 5, 1, add)
    wire += frame(HEADERS, 5, 3, again)
    counts = marks([(WRITE, wire)], Rules(defaults=True))
    assert [(stream, secret.name) for (stream, _), secret in counts] == [
        (1, "authorization"),
        (3, "authorization"),
    ]
    assert len({secret.fingerprint for _, secret in counts}) == 1


@pytest.mark.parametrize("empty", [b"\x00", b"\x80"], ids=["plain", "Huffman"])
def test_an_empty_header_is_no_secret(empty: bytes) -> None:
    wire = PREFACE + frame(SETTINGS, 0, 0)
    wire += frame(HEADERS, 5, 1, b"\x82\x84\x87\x41\x01h" + b"\x40\x0dauthorization" + empty)
    assert not marks([(WRITE, wire)], Rules(defaults=True))


def test_messages_of_a_websocket_belong_to_no_message_of_http() -> None:
    wish = b"GET /ws HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
    agreed = b"HTTP/1.1 101 Y\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
    text = b'{"password": "abcdefghij"}'
    steps: list[Step] = [(WRITE, wish), (READ, agreed), (READ, bytes((0x81, len(text))) + text)]
    [((place, secret), count)] = marks(steps, Rules(defaults=True)).items()
    assert (place, secret.where, secret.name, count) == (
        NO_MESSAGE, "server message", "password", 1
    )  # fmt: skip


def test_what_a_file_says_is_not_found_again() -> None:
    recorded = RedactedSecret("request header", "authorization", None, "12345678")
    received = Received()
    redactor = Redactor(received, Rules(defaults=True))
    one = replace(connection())
    redactor.opened(one, 0)
    sent = b"GET /?token=xxxxxxxxxxx HTTP/1.1\r\nAuthorization: ***********\r\n\r\n"
    chunk = Chunk(one, WRITE, 0, 7, 0, sent, redacted={NO_MESSAGE: {recorded: 1}})
    redactor.chunk(chunk)
    redactor.closed(one, 1)
    [chunk] = received.chunks
    assert [secret for counts in (chunk.redacted or {}).values() for secret in counts] == [
        recorded,
        RedactedSecret("request url", "token"),
    ]


def test_kinds_of_secrets_in_a_chunk_are_bounded() -> None:
    body = "&".join(f"password=secret-{number:03}" for number in range(200))
    counts = marks(post(body), Rules(defaults=True))
    assert sum(counts.values()) == 200
    assert len(counts) == 65
    assert counts[(0, 0), RedactedSecret("request body", OTHERS)] == 136


@pytest.mark.parametrize(
    ("name", "value", "texts"),
    [
        ("Authorization", b"Bearer abc.def", [b"abc.def"]),
        ("proxy-authorization", b"basic  YTpi ", [b"YTpi"]),
        ("authorization", b"Digest a=b, c=d", [b"Digest a=b, c=d"]),
        ("x-api-key", b"Bearer abc", [b"Bearer abc"]),
        ("Set-Cookie", b"sid=abc; Path=/", [b"abc"]),
        ("Cookie", b"a=1; sid=abc", [b"1", b"abc"]),
        ("Cookie", b"", [b""]),
        ("Cookie", b"; ".join(b"a%d=1" % each for each in range(9)), None),
    ],
)
def test_a_header_has_the_secrets_that_are_elsewhere_too(
    name: str, value: bytes, texts: list[bytes] | None
) -> None:
    assert texts_of(name, value) == (texts or [value])


def test_marks_are_bounded() -> None:
    fingerprints = Fingerprints()
    for number in range(10_000):
        fingerprints.mark("request header", "x", None, b"secret-%d" % number)
    assert len(fingerprints._known) <= 4096
