"""Limits that hold while one thing is done."""

import mmap
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sslsniff.kernel import resource_limits
from sslsniff.kernel.resource_limits import OverTimeError, end_after, limited, raise_when_over_time

KINDS = (resource.RLIMIT_CPU, resource.RLIMIT_AS)
MEMORY_BYTES = 1 << 30
ROOT = Path(__file__).parents[3]


@pytest.mark.heavy
def test_time_is_limited() -> None:
    """In a new process: in this one the kernel's count by ticks may be off by seconds."""
    script = f"from {__name__} import limit_time; limit_time()"
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True)


def limit_time() -> None:
    before = [resource.getrlimit(kind) for kind in KINDS]
    began_s = time.process_time()
    with pytest.raises(OverTimeError), limited(1, 4 * MEMORY_BYTES):
        _take_time()
    assert time.process_time() - began_s > 0.9
    assert [resource.getrlimit(kind) for kind in KINDS] == before


@pytest.mark.heavy
def test_a_limit_that_is_reached_at_once_does_not_stay() -> None:
    script = f"from {__name__} import reach_the_limit_at_once; reach_the_limit_at_once()"
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True)


def reach_the_limit_at_once() -> None:
    """Between the limit of time and that of memory: the kernel looks at the time at each tick."""
    measured = resource_limits.address_space

    def measure_slowly() -> int:
        began_s = time.process_time()
        while time.process_time() - began_s < 0.1:
            pass
        return measured()

    resource_limits.address_space = measure_slowly
    while time.process_time() < 3:
        pass
    before = [resource.getrlimit(kind) for kind in KINDS]
    with pytest.raises(OverTimeError), limited(-2, 4 * MEMORY_BYTES):
        _take_time()
    assert [resource.getrlimit(kind) for kind in KINDS] == before


@pytest.mark.heavy
def test_time_over_is_said_again_where_python_dropped_it() -> None:
    script = f"from {__name__} import drop_the_first; drop_the_first()"
    run = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "OverTimeError" in run.stderr
    assert run.stdout == "raised\n"


class _Finalised:
    def __del__(self) -> None:
        _take_time()


def drop_the_first() -> None:
    raise_when_over_time()
    end_after(1)
    _Finalised()
    with pytest.raises(OverTimeError):
        _take_time()
    print("raised")


def _take_time() -> None:
    while True:
        pass


def test_memory_is_limited() -> None:
    before = [resource.getrlimit(kind) for kind in KINDS]
    with pytest.raises(MemoryError), limited(60, 4 * MEMORY_BYTES):
        bytearray(5 * MEMORY_BYTES)
    assert [resource.getrlimit(kind) for kind in KINDS] == before


@pytest.mark.heavy
def test_memory_reserved_before_does_not_count() -> None:
    with mmap.mmap(-1, 3 * MEMORY_BYTES, prot=0), limited(60, 2 * MEMORY_BYTES):
        bytearray(MEMORY_BYTES)
