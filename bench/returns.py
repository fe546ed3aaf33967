"""What it costs to see returns at instructions, beside return trampolines.

A trampoline is what the kernel has for returns, and kills programs that switch coroutines inside a
call. The price of safety is the ratio of what both add to a call.
"""

from collections.abc import Iterator

from bench.loads import MessageLoad, Messages, PythonMessages, own_folder
from bench.rows import Row
from bench.watches import Sslsniff, Watch, compare

_LOADS: tuple[tuple[str, type[MessageLoad], dict[int, int], float], ...] = (
    ("SSL_read and SSL_write", Messages, {64: 60_000, 1024: 60_000, 16384: 15_000}, 1.15),
    ("Python's SSL_read_ex and SSL_write_ex", PythonMessages, {1024: 30_000}, 1.3),
)
"""What is called, the program, sizes -> how many messages, and the most that the ratio may be."""


def measure() -> Iterator[Row]:
    """Let each program send while sslsniff sees its returns in the one way, and in the other."""
    for what, load, messages, bar in _LOADS:
        with own_folder() as (folder, certificate), load(folder, certificate) as program:
            default = Sslsniff(folder, name="instructions")
            other = Sslsniff(folder, "--returns", "trampoline", name="trampoline")
            watches: list[Watch] = [default, other]
            costs = compare(program, watches, messages)
        for size in messages:
            ours, theirs = costs[default.name, size], costs[other.name, size]
            note = (
                f"{ours.added_us:.1f} and {theirs.added_us:.1f} us added to a call;"
                f" {100 * ours.rate:.0f} and {100 * theirs.rate:.0f} % of the rate left"
            )
            name = f"{what}, {size} B: cost beside trampolines"
            yield Row(name, ours.added_us / theirs.added_us, "times", bar, note)
