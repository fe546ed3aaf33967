"""Numbers in messages."""

import pytest

from sslsniff.core.errors import counted


@pytest.mark.parametrize(
    ("number", "words", "text"),
    [
        (1, ("call",), "1 call"),
        (0, ("call",), "0 calls"),
        (2, ("call",), "2 calls"),
        (1, ("process", "processes"), "1 process"),
        (12, ("process", "processes"), "12 processes"),
        (1, ("call was", "calls were"), "1 call was"),
    ],
)
def test_a_noun_agrees_with_its_number(number: int, words: tuple[str, ...], text: str) -> None:
    assert counted(number, *words) == text
