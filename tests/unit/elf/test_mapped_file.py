"""What is where two pieces meet is found as anywhere else."""

from itertools import pairwise

import pytest

from sslsniff.elf.mapped_file import Region
from sslsniff.elf.symbols import Function, Symbols
from sslsniff.libraries.rustls.versions import find_releases

SIZE = 1_000_000
PIECE = list(Region.of(bytes(SIZE)).pieces())[1][0]
"""The place where the first piece ends."""


def region(text: bytes, *ends: int) -> Region:
    """Return a region with ``text`` in it, once with its end at each of ``ends``."""
    data = bytearray(SIZE)
    for end in ends:
        data[end - len(text) : end] = text
    return Region.of(bytes(data))


def test_pieces_are_all_of_it() -> None:
    data = bytes(range(256)) * (SIZE // 256)
    pieces = [*Region.of(data).pieces(3)]
    assert len(pieces) > 2
    for (at, piece), (behind, _) in pairwise(pieces):
        assert piece == data[at : behind + 3]
    at, piece = pieces[-1]
    assert piece == data[at:]
    assert [*Region.of(b"").pieces()] == []


@pytest.mark.parametrize("text", [b"a", b"needle"])
def test_each_place_is_found_once(text: bytes) -> None:
    for end in range(PIECE - 1, PIECE + len(text) + 2):
        searched = region(text, len(text), end, SIZE)
        assert [*searched.places(text)] == [0, end - len(text), SIZE - len(text)]
        assert text in searched
    assert b"thread" not in searched


@pytest.mark.heavy
def test_a_release_is_found_and_another_crate_is_none() -> None:
    path = b"/rustls-0.23.45/src/conn.rs"
    other = b"/tokio-rustls-0.26.1/src/lib.rs"
    for end in range(PIECE - 1, PIECE + len(other) + 2):
        assert find_releases(region(path, end)) == ("0.23.45",)
        assert find_releases(region(other, end)) == ()


@pytest.mark.parametrize("name", ["short", "long" * 300])
def test_functions_have_their_names(name: str) -> None:
    text = b"\0" + name.encode() + b"\0"
    for end in {PIECE - 1, PIECE, PIECE + 1, PIECE + len(text) // 2, PIECE + len(text), SIZE}:
        names = region(text, end)
        entry = (end - len(text) + 1).to_bytes(4, "little") + bytes([2, 0, 1, 0])
        entry += (0x1000).to_bytes(8, "little") + (16).to_bytes(8, "little")
        symbols = Symbols(region(entry, PIECE, PIECE + 24), names)
        wanted = Function(0x1000, 16)
        assert symbols.function(name) == wanted
        for found in (symbols.functions(), symbols.functions_with(name[-5:].encode())):
            assert [*found] == [(name, wanted), (name, wanted)]
        assert symbols.name(PIECE // 24) == name
