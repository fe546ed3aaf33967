"""Escapes characters that control a terminal, and those that are not visible.

Text from the wire, from another process or from a file's name must not move a terminal's cursor,
forge a line, reorder one (CVE-2021-42574) or look like other text.
"""

import functools
import re

# Default_Ignorable_Code_Point (Unicode's DerivedCoreProperties.txt): takes no place on a screen.
# Only those that are not of category C, which ``str.isprintable`` does not know.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)

_SPACES = frozenset(map(chr, (0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000)))
"""Spaces of other widths (category Zs), which Python does not count as printable."""


def escape(text: str) -> str:
    r"""Return ``text`` with each invisible character but spaces as ``\x1b``, ``\u202e``, ...

    These are control characters (C0 and C1), line ends, direction marks, characters without width,
    and surrogates. Backslashes are not escaped: the result is for reading, not for parsing.
    """
    if text.isprintable() and (text.isascii() or not _INVISIBLE.search(text)):
        return text
    return "".join(map(_shown, text))


def escape_lines(text: str) -> str:
    """Return ``text`` as ``escape`` does, but leave line ends and tabs unescaped."""
    return "\n".join(
        "\t".join(map(escape, line.split("\t"))) for line in text.replace("\r\n", "\n").split("\n")
    )


def encodable(text: str) -> str:
    r"""Return ``text`` with lone surrogates, which UTF-8 cannot encode, as ``\udcff``, ..."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def escape_json(line: str) -> str:
    r"""Return JSON ``line`` with the characters that ``escape`` escapes as ``\u202e``, ...

    Its value is the same (RFC 8259, section 7). It is one line also for readers that end lines at
    other characters, as ``str.splitlines`` does at U+2028 and U+0085.
    """
    if line.isprintable() and (line.isascii() or not _INVISIBLE.search(line)):
        return line
    return "".join(map(_json_shown, line))


@functools.lru_cache(maxsize=4096)
def _json_shown(char: str) -> str:
    if _shown(char) == char:
        return char
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


@functools.lru_cache(maxsize=4096)
def _shown(char: str) -> str:
    if (char.isprintable() or char in _SPACES) and not _INVISIBLE.match(char):
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
