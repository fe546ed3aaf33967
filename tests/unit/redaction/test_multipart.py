"""Where a part of a multipart ends, for parsers that read its boundary in different ways."""

import pytest

from tests.unit.captures import WRITE, Step
from tests.unit.redaction.test_redaction import redact

SECRET = "S3CR3Txyzzy"
NAMED = 'Content-Disposition: form-data; name="{}"'
CASES = {
    "a longer line": "v1\r\n--XbXY\r\n" + SECRET,
    "a longer line, without a value before": "--XbXY\r\n" + SECRET,
    "a longer last line": "v1\r\n--XbX--y\r\n" + SECRET,
    "half the end of the last line": "v1\r\n--XbX-\r\n" + SECRET,
    "more than the end of the last line": "v1\r\n--XbX---\r\n" + SECRET,
    "a word after it": "v1\r\n--XbX y\r\n" + SECRET,
    "in another case": "v1\r\n--xbx\r\n" + SECRET,
    "with another end of line before it": "v1\n--XbX\r\n" + SECRET,
    "with another end of line after it": "v1\r\n--XbX\n" + SECRET,
    "with a bare carriage return": "v1\r\n--XbX\r" + SECRET,
    "shorter": "v1\r\n--Xb\r\n" + SECRET,
    "a part for those who read the beginning": (
        f"v1\r\n--XbXY\r\n{NAMED.format('token')}\r\n\r\n{SECRET}\r\n--XbXY\r\n\r\n{SECRET}"
    ),
    "a part that is no secret for those who read the beginning": (
        f"v1\r\n--XbXY\r\n{NAMED.format('user')}\r\n\r\n{SECRET}"
    ),
}
KINDS = {
    "said": "multipart/form-data; boundary=XbX",
    "said in quotes": 'Multipart/Form-Data; charset=utf-8; Boundary="XbX"',
    "not said": "text/plain",
}


def sent(body: str, kind: str = KINDS["said"]) -> bytes:
    head = f"POST / HTTP/1.1\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return (head + body).encode()


def shown(wire: bytes, size: int) -> bytes:
    steps: list[Step] = [(WRITE, wire[at : at + size]) for at in range(0, len(wire), size)]
    return redact(steps)[0].plaintext(WRITE)


def form(name: str, value: str, last: str = "--XbX--\r\n", newline: str = "\r\n") -> str:
    """Return a multipart with three parts, of which one has this name and value."""
    parts = (("user", "shown1"), (name, value), ("note", "shown2"))
    lines = (f"--XbX{newline}{NAMED.format(each)}{newline * 2}{of}" for each, of in parts)
    return newline.join([*lines, last])


@pytest.mark.parametrize("size", [1 << 20, 1, 7])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", CASES)
def test_a_secret_ends_at_a_line_that_is_the_boundary(case: str, kind: str, size: int) -> None:
    value = CASES[case]
    stars = form("password", "*" * len(value))
    assert shown(sent(form("password", value), KINDS[kind]), size) == sent(stars, KINDS[kind])


@pytest.mark.parametrize("size", [1 << 20, 1, 7])
@pytest.mark.parametrize("newline", ["\r\n", "\n"])
@pytest.mark.parametrize("last", ["--XbX--", "--XbX-- \t", "--XbX--{}", "--XbX{}", "--XbX \t{}"])
@pytest.mark.parametrize("value", ["", "v1", "\r\n", "v1\r\n\r\n"])
def test_a_secret_ends_no_later(value: str, last: str, newline: str, size: int) -> None:
    last = last.format(newline)
    body = form("user", "shown", "", newline) + form("password", value, last, newline)
    stars = "*" * len(value)
    assert shown(sent(body), size) == sent(
        form("user", "shown", "", newline) + form("password", stars, last, newline)
    )
    ends = f"--XbX{newline}{NAMED.format('password')}{newline * 2}{value}{newline}{last}"
    assert shown(sent(ends), size).endswith(f"{stars}{newline}{last}".encode())


@pytest.mark.parametrize("size", [1 << 20, 1, 7])
def test_a_part_for_those_who_read_the_beginning(size: int) -> None:
    """In the value of a part that is no secret, there is one for some parsers: it is blanked."""
    value = f"v1\r\n--XbXY\r\n{NAMED.format('token')}\r\n\r\n"
    redacted = shown(sent(form("about", value + SECRET)), size)
    assert redacted == sent(form("about", value + "*" * len(SECRET)))


@pytest.mark.parametrize(
    "kind",
    [
        "multipart/form-data; boundary=XbX; boundary=b",
        'multipart/mixed; x="; boundary=b"; boundary=XbX',
        f"multipart/mixed; boundary={'XbX' * 1000}",
    ],
)
def test_where_the_boundary_is_not_sure_all_is_blanked(kind: str) -> None:
    value = f"v1\r\n--XbX\r\n{SECRET}\r\n--b\r\n{SECRET}"
    redacted = shown(sent(form("password", value), kind), 1 << 20)
    assert SECRET.encode() not in redacted
    assert b"shown1" in redacted
