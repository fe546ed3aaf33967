"""Commands that load a library late, and what becomes of them."""

import time
from collections.abc import Callable, Iterator

from sslsniff.kernel import procfs
from tests.workload.processes import PATIENCE_S

Late = Callable[..., list[str]]
"""The fixture ``late``: a command that loads a library that nobody has used, and asks once."""


def patiently() -> Iterator[None]:
    """Yield now and then, until patience is at its end."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        yield
        time.sleep(0.01)


def child(pid: int, name: str) -> int:
    """Wait until ``pid`` has a descendant of this name; return its number."""
    for _ in patiently():
        for each in procfs.descendants([pid]):
            facts = procfs.process(each)
            if facts is not None and facts.comm == name:
                return each
    raise TimeoutError(f"process {pid} has no child {name}")


def until_held(pid: int) -> None:
    """Wait until a thread of a process is held."""
    for _ in patiently():
        if "t" in map(procfs.state, procfs.threads(pid)):
            return
    raise TimeoutError(f"no thread of process {pid} is held")


def until_state(pid: int, states: str) -> None:
    """Wait until a process is in one of these states, as proc(5) names them."""
    for _ in patiently():
        if (procfs.state(pid) or "gone") in states:
            return
    raise TimeoutError(f"process {pid} is in state {procfs.state(pid)}, not in {states}")
