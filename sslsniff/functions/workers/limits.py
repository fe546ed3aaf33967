"""Limits of a worker, and of sslsniff itself while it parses what a worker answers."""

MOST_CPU_S = 600
"""Seconds of CPU for a file; all 115,000 functions of Node.js take 25."""
MOST_MEMORY_BYTES = 2 << 30
"""Address space beside what a process has before; all functions of Node.js take 180 MB."""
MOST_WAIT_S = 2 * MOST_CPU_S
"""Seconds by the clock for an answer: its disk may not answer, or a hostile worker."""


def over_cpu(seconds: int) -> str:
    """Return the limit of CPU time in words."""
    return f"{seconds} s of CPU"


def over_memory() -> str:
    """Return the limit of memory in words."""
    return f"{MOST_MEMORY_BYTES >> 30} GB of memory"
