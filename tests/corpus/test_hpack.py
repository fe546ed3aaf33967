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


def cases(path: Path) -> list[tuple[int | None, bytes, list[Header]]]:
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
    assert len({story.split("/")[0] for story in STORIES}) >= 5


@pytest.mark.parametrize("story", STORIES)
def test_exact(story: str) -> None:
    decoder = HpackDecoder()
    for size, wire, headers in cases(FOLDER / story):
        if size is not None:
            decoder.allow(size)
        assert decoder.decode(wire) == (headers, None)


@pytest.mark.parametrize("missed", [1, 5, 20])
def test_joined_late_shows_no_wrong_field(missed: int) -> None:
    right = unknown = 0
    for story in STORIES:
        decoder = HpackDecoder()
        decoder.forget()
        for _, wire, headers in cases(FOLDER / story)[missed:]:
            fields, error = decoder.decode(wire)
            assert error is None
            assert len(fields) == len(headers)
            for (name, value), (true_name, true_value) in zip(fields, headers, strict=True):
                assert name in (None, true_name)
                assert value in (None, true_value)
                if name is None or value is None:
                    unknown += 1
                else:
                    right += 1
    assert right / (right + unknown) > 0.9
