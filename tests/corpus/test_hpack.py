"""http2jp/hpack-test-case: header blocks of five encoders, decoded exactly or, joined late,
with what cannot be known left out and nothing wrong."""

import json
from pathlib import Path

import pytest

from sslsniff.decoders.http2.hpack import HpackDecoder
from sslsniff.decoders.messages import Header
from tests.corpus.conftest import corpus

FOLDER = corpus("hpack-test-case")
STORIES = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.glob("*/*.json"))
ENCODERS = sorted({story.split("/")[0] for story in STORIES})

Case = tuple[int | None, bytes, list[Header]]


def cases(path: Path) -> list[Case]:
    story = json.loads(path.read_text())
    return [
        (
            case.get("header_table_size"),
            bytes.fromhex(case["wire"]),
            [(name, value) for field in case["headers"] for name, value in field.items()],
        )
        for case in story["cases"]
    ]


def test_all_stories_are_there() -> None:
    assert len(ENCODERS) >= 5


@pytest.mark.parametrize("story", STORIES)
def test_exact(story: str) -> None:
    decoder = HpackDecoder()
    for size, wire, headers in cases(FOLDER / story):
        if size is not None:
            decoder.allow_table(size)
        assert decoder.decode(wire) == (headers, None)


@pytest.mark.heavy
def test_joined_late_shows_no_wrong_field() -> None:
    """The first 1 to 20 blocks of each story are missed; ``pytest -s`` prints the figures."""
    right = {encoder: [0] * 20 for encoder in ENCODERS}
    total = {encoder: [0] * 20 for encoder in ENCODERS}
    for story in STORIES:
        encoder = story.split("/")[0]
        blocks = cases(FOLDER / story)
        for at in range(20):
            known, fields = join_late(blocks[at + 1 :])
            right[encoder][at] += known
            total[encoder][at] += fields
    for encoder in ENCODERS:
        shares = [a / b for a, b in zip(right[encoder], total[encoder], strict=True)]
        print(f"\n{encoder}: {min(shares):.1%} to {max(shares):.1%} of fields known, rest unknown")
    all_known = [sum(n[at] for n in right.values()) for at in range(20)]
    all_fields = [sum(n[at] for n in total.values()) for at in range(20)]
    shares = [a / b for a, b in zip(all_known, all_fields, strict=True)]
    print(f"all: {min(shares):.1%} to {max(shares):.1%} known, of {all_fields[0]} fields and fewer")
    assert min(shares) >= 0.94


def join_late(blocks: list[Case]) -> tuple[int, int]:
    """Return how many fields are right, and how many there are; the others must be unknown."""
    decoder = HpackDecoder()
    decoder.forget()
    right = total = 0
    for _, wire, headers in blocks:
        fields, error = decoder.decode(wire)
        assert error is None
        assert len(fields) == len(headers)
        total += len(headers)
        for field, (true_name, true_value) in zip(fields, headers, strict=True):
            right += field == (true_name, true_value)
            assert field[0] in (None, true_name)
            assert field[1] in (None, true_value)
    return right, total
