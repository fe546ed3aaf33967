"""What skipping.c and skipping.py share: the sizes of structures, and a constant."""

import ctypes

from sslsniff.core import ring_records
from sslsniff.kernel.memory import skipping


def test_sizes_are_those_of_the_library() -> None:
    sizes = (ctypes.c_uint64 * 4).in_dll(skipping._library(), "contract_sizes")
    run, runs, record, most_runs = sizes
    assert (run, runs) == (ctypes.sizeof(skipping._Run), ctypes.sizeof(skipping._Runs))
    assert most_runs == skipping.MOST_RUNS
    assert record <= ring_records.PADDING_BYTES  # it may be read where only its first word is
