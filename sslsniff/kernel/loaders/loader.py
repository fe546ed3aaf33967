"""The interface of all BPF loaders, and their errors."""

import contextlib
import errno
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from sslsniff.core.errors import KernelError

Detach = Callable[[], None]
"""Detaches what one call attached. Any thread may call it, but only once."""


def detach_all(detaches: Iterable[Detach]) -> None:
    """Detach all in parallel: each waits until no CPU runs its program."""
    threads = [threading.Thread(target=detach) for detach in detaches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@contextlib.contextmanager
def signals_blocked() -> Iterator[None]:
    """Let the signals of this thread wait while a program is loaded.

    The verifier gives up where one is pending (EAGAIN), and libbpf after five attempts: at the end
    of a capture a timer ticks.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def refused_entry(name: str, number: int) -> KernelError:
    """Return the error for an entry that map ``name`` refused; ``number`` is the ``errno``."""
    if number == errno.E2BIG:  # bpf(2), BPF_MAP_UPDATE_ELEM
        return KernelError(f"the kernel's table of {name} is full", "name fewer to watch")
    reason = os.strerror(number)
    return KernelError(f"the kernel refused an entry of map {name} ({reason})", _DOCTOR)


def refused_probe(program: str, offsets: Sequence[int], number: int) -> KernelError:
    """Return the error for probes that were refused, without the file: the caller adds it."""
    places = ", ".join(f"{offset:#x}" for offset in offsets[:_MOST_SHOWN])
    if len(offsets) > _MOST_SHOWN:
        places += f" and {len(offsets) - _MOST_SHOWN} more"
    return KernelError(f"cannot attach {program} at {places} ({os.strerror(number)})", _DOCTOR)


def refused_place(place: str, number: int) -> KernelError:
    """Return the error for a program that was not attached to ``place``, such as a tracepoint."""
    return KernelError(f"cannot attach {place} ({os.strerror(number)})", _DOCTOR)


_DOCTOR = "run sslsniff doctor"
_MOST_SHOWN = 8  # offsets in an error


class Loader(Protocol):
    """A loaded BPF object. Keys and values are bytes in the layouts of ``bpf/maps.bpf.h``."""

    @property
    def name(self) -> str:
        """The loader's name: ``co-re`` or ``bcc``."""

    @property
    def opens_perf_events(self) -> bool:
        """Whether it attaches uprobes by perf_event_open(2), not by bpf(2)."""

    @property
    def can_hold(self) -> bool:
        """Whether it loaded the programs that hold threads."""

    def map_fd(self, name: str) -> int:
        """Return the file descriptor of a map, valid until ``close``."""

    def lookup(self, name: str, key: bytes, value_bytes: int) -> bytes | None:
        """Return the value under ``key``; None: there is none."""

    def update(self, name: str, key: bytes, value: bytes) -> None:
        """Set the value under ``key``; raises ``KernelError`` where the map is full."""

    def delete(self, name: str, key: bytes) -> None:
        """Delete ``key``, if it is there."""

    def keys(self, name: str, key_bytes: int) -> list[bytes]:
        """Return the keys of a map; those that come or go meanwhile may be left out."""

    def is_empty(self, name: str) -> bool:
        """Say whether the map has no key."""

    def attach_uprobes(
        self,
        program: str,
        path: str,
        offsets: Sequence[int],
        *,
        is_return: bool,
        cookies: Sequence[int],
        semaphores: Sequence[int] = (),
    ) -> Detach:
        """Probe every process that maps the file ``path``, at all of these file offsets.

        ``cookies``: for each offset, the number that the program gets there: the index of the
        library's layout, and above that the convention (``machine_code.conventions``).
        ``semaphores``: for each offset, the file offset of a counter that the kernel counts up in
        each process while it is probed, 0: none; empty: none at all. Raises
        ``SslsniffError``, which does not name the file: no place is probed then. It calls
        ``place_check.check_places`` first.
        """

    def attach_raw_tracepoint(self, program: str, tracepoint: str) -> Detach:
        """Attach to a raw tracepoint; raises ``KernelError`` if the kernel does not have it."""

    def attach_kprobe(self, program: str, function: str) -> Detach:
        """Attach to the entry of a kernel function; raises ``KernelError``."""

    def close(self) -> None:
        """Unload all programs and maps, and so detach all probes."""
