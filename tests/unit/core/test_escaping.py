"""Nothing that a terminal acts on, or a reader does not see, gets through."""

import json
import sys
import unicodedata

import pytest

from sslsniff.core.escaping import escape, escape_json, escape_lines


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain", "plain"),
        ("\x1b[2J", "\\x1b[2J"),
        ("a\r\nb", "a\\x0d\\x0ab"),
        ("\x9b31m", "\\x9b31m"),
        ("\u202eabc", "\\u202eabc"),
        ("pay\u200bpal", "pay\\u200bpal"),
        ("a\ufeffb", "a\\ufeffb"),
        ("a\u3164b\ufe0f", "a\\u3164b\\ufe0f"),
        ("\U000e0041", "\\ue0041"),
        (
            "caf\u00e9 \u65e5\u672c\u3000\u8a9e\xa0\U0001f600",
            "caf\u00e9 \u65e5\u672c\u3000\u8a9e\xa0\U0001f600",
        ),
        ("\ud800", "\\ud800"),
        ("\x7f", "\\x7f"),
    ],
)
def test_what_is_shown(raw: str, shown: str) -> None:
    assert escape(raw) == shown


@pytest.mark.slow
def test_every_character() -> None:
    """What passes is neither of category C or a line end (Unicode) nor of no width at all."""
    passed = {char for char in map(chr, range(sys.maxunicode + 1)) if escape(char) == char}
    categories = {unicodedata.category(char) for char in passed}
    assert categories.isdisjoint({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
    assert {"Ll", "Lo", "Mn", "Nd", "Po", "Sc", "So", "Zs"} <= categories
    assert all(escape(f"a{char}") == f"a{char}" for char in passed)


def test_lines_stay_lines() -> None:
    assert escape_lines("a\r\n\tb\x1bc\rd") == "a\n\tb\\x1bc\\x0dd"


@pytest.mark.slow
def test_json_means_the_same() -> None:
    """Every character, also those beyond 16 bits and lone surrogates."""
    text = "".join(map(chr, range(sys.maxunicode + 1)))
    escaped = escape_json(json.dumps(text, ensure_ascii=False))
    # A high surrogate before a low one is a pair: here are all high ones, then all low ones.
    joined = text.replace("\udbff\udc00", "\U0010fc00")
    assert json.loads(escaped) == joined
    assert escape(escaped) == escaped
    assert escape_json('{"a":"caf\u00e9"}') == '{"a":"caf\u00e9"}'
