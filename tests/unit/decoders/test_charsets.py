import pytest

from sslsniff.decoders.content.charsets import as_text, charset
from sslsniff.decoders.messages import Header


@pytest.mark.parametrize(
    ("data", "media_type", "name", "text"),
    [
        (b"plain", "", "utf-8", "plain"),
        ("wörld".encode(), "", "utf-8", "wörld"),
        ("wörld".encode()[:2], "", None, None),
        (b"caf\xe9", "text/plain; charset=utf-8", "cp1252", "café"),
        (b"w\xf6rld", "", None, None),
        (b"w\xf6rld", "text/plain", "cp1252", "wörld"),
        (b"w\xf6rld", "text/plain; charset=iso-8859-1", "iso-8859-1", "wörld"),
        (b"w\xf6rld", "text/plain; charset=utf-8", "cp1252", "wörld"),
        (b"w\xf6rld", 'application/x; Charset="Latin1"', "latin1", "wörld"),
        (b"x", "text/plain; charset=zlib", "utf-8", "x"),
        (b"x", "text/plain; charset=no-such", "utf-8", "x"),
        (b"\xef\xbb\xbfx", "", "utf-8-sig", "x"),
        (b"\xff\xfex\0", "", "utf-16", "x"),
        (b"x\0\0\0", "text/plain", None, None),
        (b"\x89PNG\r\n\x1a\n", "image/png", None, None),
        (b"\x81\x8d", "application/json", "cp1252", "\ufffd\ufffd"),
        (b"", "", "utf-8", ""),
    ],
)
def test_text(data: bytes, media_type: str, name: str | None, text: str | None) -> None:
    headers: list[Header] = [("Content-Type", media_type)] if media_type else []
    assert charset(data, headers) == name
    assert as_text(data, headers) == text


@pytest.mark.parametrize("name", ["utf-8", "shift_jis", "utf-16-le", "gb18030"])
def test_a_cut_character_is_left_out(name: str) -> None:
    headers: list[Header] = [("Content-Type", f"text/plain; charset={name}")]
    data = "w日".encode(name)
    assert as_text(data, headers) == as_text(data, headers, cut=True) == "w日"
    assert as_text(data[:-1], headers, cut=True) == "w"
