"""Bodies as people see them."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sslsniff.core.model import Body
from sslsniff.decoders.messages import Headers
from sslsniff.forms.text.bodies import body_lines, indent_json
from tests.unit.files.foreign import FAR, NEAR, Wire
from tests.unit.linear import Spent

SSLSNIFF = Path(sys.executable).with_name("sslsniff")


def lines(data: bytes, media_type: str) -> list[str]:
    return body_lines(Body(len(data), data), Headers([("Content-Type", media_type)]))


@pytest.mark.parametrize(
    ("media_type", "charset"),
    [
        ("text/plain; charset=iso-8859-15", "iso-8859-15"),
        ('text/html; charset="Shift_JIS"', "shift_jis"),
        ("application/json; charset=utf-16", "utf-16"),
        ("text/plain", "utf-8"),
    ],
)
def test_charsets(media_type: str, charset: str) -> None:
    word = "\u65e5\u672c\u8a9e" if charset == "shift_jis" else "\u20ac caf\u00e9"
    assert lines(word.encode(charset), media_type) == [word]


def coded_response(media_type: str | None, body: bytes, coding: str | None = None) -> bytes:
    fields = {"Content-Type": media_type, "Content-Encoding": coding, "Content-Length": len(body)}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items() if value is not None)
    return f"HTTP/1.1 200 OK\r\n{head}\r\n".encode() + body


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("media_type", "body", "coding", "shown"),
    [
        ("text/html; charset=ISO-8859-1", "caf\u00e9".encode("latin-1"), None, ["caf\u00e9"]),
        (
            "text/plain; charset=Shift_JIS",
            "\u65e5\u672c".encode("shift_jis"),
            None,
            ["\u65e5\u672c"],
        ),
        ("text/plain; charset=utf-8", b"caf\xe9", None, ["caf\u00e9"]),  # wrong
        ("text/plain; charset=none-such", "caf\u00e9".encode(), None, ["caf\u00e9"]),
        (None, "caf\u00e9".encode(), None, ["caf\u00e9"]),
        (None, b"caf\xe9", None, ["(4 B, not text)"]),
        (
            "application/json",
            gzip.compress('{"a": ["\u00e9", 1]}'.encode(), mtime=0),
            "gzip",
            ["{", '  "a": [', '    "\u00e9",', "    1", "  ]", "}"],
        ),
    ],
)
def test_read_vv_shows_text(
    tmp_path: Path, media_type: str | None, body: bytes, coding: str | None, shown: list[str]
) -> None:
    wire = Wire()
    wire.handshake()
    wire.send(NEAR, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    wire.send(FAR, coded_response(media_type, body, coding))
    wire.end()
    wire.write(tmp_path / "file")
    done = subprocess.run(
        [SSLSNIFF, "read", tmp_path / "file", "-vv"],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    [_, *told] = done.stdout.splitlines()
    assert told[-len(shown) - 2 : -1] == ["  <", *(f"  < {line}" for line in shown)]


def test_what_is_not_text() -> None:
    assert lines(bytes(range(256)) * 10, "image/png") == ["(2.6 kB, not text)"]


def test_nothing_in_a_body_reaches_a_terminal_raw() -> None:
    shown = lines("a\x1b[2J\u202e\u200b\x9b\rb\tc\n\ufeff".encode(), "text/plain")
    assert shown == [r"a\x1b[2J\u202e\u200b\x9b\x0db" + "\tc", r"\ufeff"]


def test_a_large_body_is_cut() -> None:
    *shown, last = lines(b"0123456\n" * 1_250_000, "text/plain")
    assert sum(len(line) + 1 for line in shown) == (1 << 20) + 1
    assert last == "(cut; 10.0 MB on the wire)"


@pytest.mark.heavy
@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(),
        lambda each: st.lists(each) | st.dictionaries(st.text(), each),
    )
)
def test_json_is_indented_as_python_does(value: object) -> None:
    source = json.dumps(value)
    if isinstance(value, list | dict):
        assert indent_json(source) == json.dumps(value, indent=2)
        assert indent_json(json.dumps(value, indent=7)) == json.dumps(value, indent=2)
    else:
        assert indent_json(source) is None


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ('{"a":1.10,"a":1e999}', '{\n  "a": 1.10,\n  "a": 1e999\n}'),
        (r'["\u0041\/"]', '[\n  "\\u0041\\/"\n]'),
        ('{"cut": ["he', '{\n  "cut": [\n    "he'),
        ("[info] started", None),
        ("{}}", None),
        ("{a: 1}", None),
        ("plain", None),
        ("", None),
    ],
)
def test_only_whitespace_changes(source: str, shown: str | None) -> None:
    assert indent_json(source) == shown


@pytest.mark.parametrize("source", ["[" * 1_000_000, '{"a":' * 200_000, "[" * 900 + "1," * 500_000])
def test_hostile_nesting_costs_little(source: str) -> None:
    spent = Spent()
    shown = lines(source.encode(), "application/json")
    assert sum(map(len, shown)) < 16 * len(source)
    assert spent.units() < 5_000_000
