"""Counts and durations by function, as tables."""

import json

from sslsniff.functions.outputs.call_tables import (
    count_lines,
    count_objects,
    histogram_lines,
    histogram_objects,
)

COUNTS = {"rare": 1, "b": 1200, "a": 1200, "never\x1b": 0}
BUCKETS = [0] * 9 + [3, 0, 40, 1] + [0] * 20


def test_counts() -> None:
    assert count_lines(COUNTS) == ["1200  a", "1200  b", "   1  rare", "   0  never\\x1b"]
    assert count_lines({}) == []


def test_counts_for_programs() -> None:
    assert [json.loads(each) for each in count_objects({"f": 2})] == [
        {"type": "count", "function": "f", "calls": 2}
    ]


def test_histogram() -> None:
    assert histogram_lines({"f\x1b": BUCKETS}) == [
        "f\\x1b: 44 calls",
        "  512 ns to 1.0 us   3  ###",
        "  1.0 us to 2.0 us   0",
        "  2.0 us to 4.1 us  40  ########################################",
        "  4.1 us to 8.2 us   1  #",
    ]


def test_histogram_of_the_first_bucket() -> None:
    assert histogram_lines({"f": [5]}) == ["f: 5 calls", f"  0 ns to 2 ns  5  {'#' * 40}"]


def test_histogram_without_calls() -> None:
    assert histogram_lines({"f": [0] * 64}) == ["f: 0 calls"]
    assert histogram_lines({"f": []}) == ["f: 0 calls"]


def test_histogram_for_programs() -> None:
    assert json.loads(histogram_objects({"f": [1, 0, 2]})[0]) == {
        "type": "histogram",
        "function": "f",
        "calls": 3,
        "buckets": [
            {"from_ns": 0, "to_ns": 2, "calls": 1},
            {"from_ns": 2, "to_ns": 4, "calls": 0},
            {"from_ns": 4, "to_ns": 8, "calls": 2},
        ],
    }
