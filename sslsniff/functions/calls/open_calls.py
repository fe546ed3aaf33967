"""The calls that have begun and not ended yet, for each thread or goroutine."""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator

from sslsniff.fetching.traced_values import Value
from sslsniff.functions.outputs.traced_call import TracedCall

MOST_OPEN_CALLS = 32_768
"""Each takes half a kilobyte and its arguments."""


class OpenCall:
    """A call that may still end; ``stack``: the stack pointer at its entry.

    ``caller``: the address that it returns to, None: unknown.
    ``dropped``: how many hits were lost or limited before it.
    ``has_return``: its return has a probe. An inlined call has none: it waits for its result.
    """

    __slots__ = ("call", "caller", "depth", "dropped", "has_return", "stack", "thread")

    def __init__(
        self,
        call: TracedCall,
        stack: int,
        thread: "CallStack",
        caller: Value,
        dropped: int,
        *,
        has_return: bool,
    ) -> None:
        self.call = call
        self.dropped = dropped
        self.depth = call.depth  # that of the call itself is what a filter makes of it
        self.stack = stack
        self.thread = thread
        self.caller = caller
        self.has_return = has_return


class CallStack(deque[OpenCall]):
    """The open calls of a thread or goroutine: the last one is the innermost.

    Stacks grow down: ``stack`` of each is at most that of the one before it.
    ``pid`` and ``key`` say whose they are.
    """

    def __init__(self, pid: int, key: int) -> None:
        super().__init__()
        self.pid = pid
        self.key = key

    def depth(self) -> int:
        """Return how many calls a call would be inside of that begins now."""
        if not self:
            return 0
        last = self[-1]
        return last.depth + last.has_return

    def inlined(self) -> Iterator[OpenCall]:
        """Yield the calls that were inlined into the innermost function, the last one first."""
        for each in reversed(self):
            if each.has_return:
                return
            yield each


class OpenCalls:
    """All open calls, ``most`` at most: beyond that the oldest one is given to ``forget``."""

    def __init__(self, forget: Callable[[OpenCall], None], most: int = MOST_OPEN_CALLS) -> None:
        self._forget = forget
        self._most = most
        self._processes: dict[int, dict[int, CallStack]] = {}
        self._by_age: OrderedDict[OpenCall, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_age)

    def thread(self, pid: int, key: int) -> CallStack | None:
        """Return the calls of a thread of process ``pid``; None: it has none."""
        threads = self._processes.get(pid)
        return threads.get(key) if threads else None

    def push(
        self,
        call: TracedCall,
        thread: CallStack | None,
        key: int,
        stack: int,
        caller: Value,
        dropped: int,
        *,
        has_return: bool,
    ) -> None:
        """Add a call that began as the innermost one of its ``thread``, None: it has no others."""
        if thread is None:
            thread = CallStack(call.pid, key)
            self._processes.setdefault(call.pid, {})[key] = thread
        added = OpenCall(call, stack, thread, caller, dropped, has_return=has_return)
        thread.append(added)
        self._by_age[added] = None
        if len(self._by_age) > self._most:
            oldest, _ = self._by_age.popitem(last=False)
            oldest.thread.popleft()
            self._prune(oldest.thread)
            self._forget(oldest)

    def pop(self, thread: CallStack) -> OpenCall:
        """Remove the innermost call of a thread and return it."""
        last = thread.pop()
        del self._by_age[last]
        self._prune(thread)
        return last

    def remove(self, inlined: OpenCall) -> None:
        """Remove an inlined call, which need not be the innermost."""
        inlined.thread.remove(inlined)
        del self._by_age[inlined]
        self._prune(inlined.thread)

    def end_process(self, pid: int) -> Iterator[OpenCall]:
        """Remove the calls of a process and yield them, the innermost of each thread first."""
        for thread in [*self._processes.get(pid, {}).values()]:
            while thread:
                yield self.pop(thread)

    def end_all(self) -> Iterator[OpenCall]:
        """Remove all calls and yield them, the innermost of each thread first."""
        for pid in [*self._processes]:
            yield from self.end_process(pid)

    def _prune(self, thread: CallStack) -> None:
        if not thread:
            threads = self._processes[thread.pid]
            del threads[thread.key]
            if not threads:
                del self._processes[thread.pid]
