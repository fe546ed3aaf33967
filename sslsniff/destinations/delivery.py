"""Delivers items in a thread of its own: a receiver that is slow or dead never stops a capture."""

import re
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from sslsniff.core.errors import OutputError

Item = TypeVar("Item")

_USER = re.compile(r"(?<=://)[^/?#]*@")

_EVERY_S = 1.0
"""How long an item waits for others to be sent with it."""
_ROOM_CHECK_S = 0.01
_ABORT_S = 0.5
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 10.0
"""Between two attempts; each pause is twice as long as the one before."""


def without_user(url: str) -> str:
    """Return a URL without the user and password in it (RFC 3986 section 3.2.1): for people."""
    return _USER.sub("", url)


class Delivery(Generic[Item]):
    """Sends items in batches, in their order, and counts those that were dropped.

    ``send`` sends one batch. It returns None, or why the batch was not taken, or raises: it is then
    called again, with pauses, for ``give_up_s`` seconds; after that the batch is dropped. It calls
    ``reject`` if the receiver took the batch but for some items: those are dropped. While
    ``most_waiting`` items wait, new ones are dropped or, if the source ``can_wait``, ``add`` waits.
    ``report`` gets a line when sending begins to fail, when it works again, and at the end;
    ``what`` names the items and the receiver in it.
    """

    def __init__(
        self,
        what: str,
        send: Callable[[list[Item]], str | None],
        report: Callable[[str], None],
        *,
        can_wait: bool,
        most_waiting: int,
        most_at_once: int,
        give_up_s: float,
    ) -> None:
        self.delivered = 0
        self._added = 0
        self._given_up = 0
        self._not_taken = 0
        self._rejected = 0
        self._what = what
        self._send = send
        self._report = report
        self._can_wait = can_wait
        self._most_waiting = most_waiting
        self._most_at_once = most_at_once
        self._give_up_s = give_up_s
        self._waiting: deque[Item] = deque()
        self._is_failing = False
        self._wake = threading.Event()
        self._is_closing = threading.Event()
        self._has_no_time = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"delivery: {what}", daemon=True)
        self._thread.start()

    @property
    def dropped(self) -> int:
        """How many items were dropped so far."""
        return self._not_taken + self._given_up

    def count(self) -> tuple[str, int, int]:
        """Return ``what`` is sent, how much was delivered, and how much was dropped."""
        return self._what, self.delivered, self.dropped

    def add(self, item: Item) -> None:
        """Let ``item`` be sent."""
        self._added += 1
        while len(self._waiting) >= self._most_waiting:
            if not self._can_wait:
                self._not_taken += 1
                return
            time.sleep(_ROOM_CHECK_S)
        self._waiting.append(item)
        if len(self._waiting) == self._most_at_once:
            self._wake.set()

    def reject(self, count: int, reason: str) -> None:
        """Note that the receiver rejected ``count`` items of the batch that is being sent."""
        if count:
            self._rejected += count
            self._report(f"{self._what}: {count:,} rejected: {reason}")

    def deliver_all(self) -> None:
        """Wait until all items are delivered. Raises ``OutputError`` if one was dropped."""
        while self.delivered + self.dropped < self._added:
            self._wake.set()
            time.sleep(_ROOM_CHECK_S)
        if self.dropped:
            raise OutputError(f"{self._what}: {self.dropped:,} dropped", "see that they are taken")

    def close(self, within_s: float, abort: Callable[[], None]) -> None:
        """Send what waits; unless the source ``can_wait``, that takes ``within_s`` at most.

        ``abort`` ends a ``send``. What is not delivered then is counted as dropped.
        """
        self._is_closing.set()
        self._wake.set()
        if not self._can_wait:
            self._has_no_time.set()
        self._thread.join(None if self._can_wait else within_s)
        abort()
        self._thread.join(_ABORT_S)
        dropped = self._added - self.delivered
        self._report(f"{self._what}: {self.delivered:,} delivered, {dropped:,} dropped")

    def _run(self) -> None:
        while not self._is_closing.is_set():
            self._wake.wait(_EVERY_S)
            self._wake.clear()
            while self._waiting:
                size = min(len(self._waiting), self._most_at_once)
                self._deliver([self._waiting.popleft() for _ in range(size)])

    def _deliver(self, batch: list[Item]) -> None:
        until_s = time.monotonic() + self._give_up_s
        pause_s = _FIRST_PAUSE_S
        while (problem := self._problem(batch)) is not None:
            if not self._is_failing:
                self._is_failing = True
                self._report(f"{self._what}: cannot deliver: {problem}; trying again")
            if self._has_no_time.wait(pause_s) or time.monotonic() > until_s:
                self._given_up += len(batch)
                return
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
        rejected, self._rejected = min(self._rejected, len(batch)), 0
        self._given_up += rejected
        self.delivered += len(batch) - rejected
        if self._is_failing:
            self._is_failing = False
            self._report(f"{self._what}: delivered again; {self.dropped:,} dropped so far")

    def _problem(self, batch: list[Item]) -> str | None:
        """Send a batch; return why it was not taken. No exception ends the thread."""
        try:
            return self._send(batch)
        except Exception as error:
            return f"{type(error).__name__}: {error}".partition("\n")[0]
