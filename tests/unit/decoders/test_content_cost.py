"""What undoing content codings takes: time and memory grow with input and output alone."""

import json
import subprocess
import sys

import pytest

from sslsniff.decoders.content.codings import window_bytes
from sslsniff.decoders.messages import Headers
from tests.unit.decoders.codings import BODIES, decode
from tests.unit.linear import assert_linear

pytestmark = pytest.mark.measured

MIB = 1 << 20


BOMBS = {"a bomb", "a bomb in br"}  # it is their output that takes time


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.reliability("input", "bytes made to take long")
def test_time_is_linear(name: str) -> None:
    coding, make = BODIES[name]
    is_bomb = name in BOMBS
    assert_linear(
        make,
        lambda body: decode(coding, body),
        most_bytes=(8 if is_bomb else 512) << 10,
        most_units_per_byte=10 if is_bomb else 1,
    )


@pytest.mark.parametrize("name", sorted(set(BODIES) - BOMBS))
def test_time_is_linear_in_pieces(name: str) -> None:
    coding, make = BODIES[name]
    assert_linear(
        make, lambda body: decode(coding, body, 7), most_bytes=32 << 10, most_units_per_byte=6
    )


def test_memory_is_linear() -> None:
    """At most twice what a body gives, and the windows of its codings; docs/decoders.md."""
    command = [sys.executable, "-m", "tests.unit.decoders.codings"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=100)
    too_much = {
        name: peak
        for name, (size, given, peak) in json.loads(done.stdout).items()
        if peak > 2 * (size + given) + MIB + window_bytes(coded(BODIES[name][0]))
    }
    assert too_much == {}


def coded(coding: str) -> Headers:
    return Headers([("content-encoding", coding)])
