"""Turns the hits of probes into calls, with their nesting, results and durations.

A call is identified by its thread, its function and the stack pointer at its entry. Stacks grow
down, so each hit also says which calls are over: those whose stack is below the hit's. They have
ended without a return that was seen, by longjmp or unwinding. In Go, hits have the goroutine's own
stack pointer, which stays the same when its stack is moved.

Where hits were dropped since a call began, the return that fits may be that of a later call, whose
own entry was dropped.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple

from sslsniff.fetching.fetch import Fetch
from sslsniff.fetching.fetch_steps import StepKind
from sslsniff.fetching.hit_records import Hit
from sslsniff.fetching.trace_places import Place, PlaceKind
from sslsniff.fetching.traced_values import StructureValue, Value
from sslsniff.functions.calls.open_calls import MOST_OPEN_CALLS, CallStack, OpenCall, OpenCalls
from sslsniff.functions.calls.static_probe_pairs import PairRole, StaticProbePairs, pair_roles
from sslsniff.functions.outputs.traced_call import CallSink, TracedCall
from sslsniff.functions.stacks.stack_trace import StackTrace

_RESULT = "result"
_STACK = StepKind.STACK


class _Role(Enum):
    """What a hit of a place does to the open calls of its thread."""

    BEGIN = "begin"
    """A call begins, and its return has a probe."""
    BEGIN_INLINED = "begin inlined"
    """A call that was inlined begins, and its result may follow."""
    POINT = "point"
    """What begins here ends here."""
    RETURN = "return"
    INLINED_RESULT = "inlined result"


# Python 3.11 looks a member up by a property of its class: 50 ns each time.
_BEGIN, _BEGIN_INLINED, _POINT = _Role.BEGIN, _Role.BEGIN_INLINED, _Role.POINT
_RETURN, _INLINED_RESULT = _Role.RETURN, _Role.INLINED_RESULT


class _PlaceRule(NamedTuple):
    """What is needed to handle a hit of a place.

    ``is_entry``: it is that of a function's own code.
    ``has_stack``: its stack pointer can be compared with that of other hits of its thread.
    ``pair``: it is one of two static probes at the start and the end of some work.
    ``read_results``: returns the results by name, where a hit ends a call.
    """

    role: _Role
    place: Place
    fetch: Fetch
    is_go: bool
    is_entry: bool
    has_stack: bool
    pair: PairRole | None
    read_results: Callable[[bytes, int], dict[str, Value]]


def no_stack(hit: Hit) -> StackTrace | None:
    """Return None: nobody asked for the stack of a hit."""
    return None


class CallBuilder:
    """Gives the calls that hits of ``places`` mean to ``sink``.

    ``read_stack``: returns the stack of a hit. ``calls`` counts them. Each call that ``entered``
    has ``ended`` once, at ``finish`` at the latest. ``forgotten`` counts those that were ended
    because more than ``most_open`` were open.
    """

    def __init__(
        self,
        places: Sequence[Place],
        sink: CallSink,
        most_open: int = MOST_OPEN_CALLS,
        read_stack: Callable[[Hit], StackTrace | None] = no_stack,
    ) -> None:
        self._sink = sink
        self._read_stack = read_stack
        self._rules = _rules(places)
        self._open = OpenCalls(self._forget, most_open)
        self._pairs = StaticProbePairs()
        self.calls = 0
        self.forgotten = 0

    def handle(self, hit: Hit) -> None:
        """Handle the next hit; those of a thread come in the order of time."""
        time_ns, pid, tid, index, stack, task, failed, dropped, data, _ = (
            hit  # quicker than by names
        )
        rule = self._rules[index]
        role, place, fetch, is_go, is_entry, has_stack, pair, _ = rule
        key = ~task if is_go and task else tid
        thread = self._open.thread(pid, key)
        if role is _RETURN:
            if thread is not None:
                self._return(rule, hit, thread)
            return
        caller: Value = None
        if fetch.return_address is not None:
            caller = fetch.return_address(data, failed)
        if thread is not None and has_stack:
            was_left = self._unwind_to(thread, stack)
            if is_entry:
                self._end_replaced(thread, stack, place, caller, was_left=was_left)
        if role is _INLINED_RESULT:
            if thread is not None:
                self._inlined_result(rule, hit, thread)
            return
        if role is _BEGIN_INLINED and thread is not None:
            self._end_previous(place, stack, thread)
        ends_later = role is not _POINT
        depth = thread.depth() if thread else 0
        arguments = fetch.values(data, failed)
        call = TracedCall(place, time_ns, pid, tid, task or None, depth, arguments)
        call.ends_later = ends_later
        call.stack = self._read_stack(hit)
        if pair is not None:
            first = self._pairs.first_of(pair, hit)
            if first is not None:
                call.duration_ns = time_ns - first.time_ns
                call.is_end_doubtful = dropped != first.dropped
        if not self.calls:
            self._sink.began(time_ns)
        self.calls += 1
        if ends_later:
            has_return = role is _BEGIN
            self._open.push(
                call, thread or None, key, stack, caller, dropped, has_return=has_return
            )
        self._sink.entered(call)
        if not ends_later:
            self._sink.ended(call)
        elif place.returns_at_once:
            thread = self._open.thread(pid, key)
            if thread is not None:
                self._return(rule, hit, thread)

    def end_process(self, pid: int) -> None:
        """Handle the end of a process: its open calls are over."""
        self._pairs.end_process(pid)
        for each in self._open.end_process(pid):
            self._sink.ended(each.call)

    def finish(self) -> None:
        """End all open calls."""
        for each in self._open.end_all():
            self._sink.ended(each.call)

    def _end_replaced(
        self, thread: CallStack, stack: int, place: Place, caller: Value, *, was_left: bool
    ) -> None:
        """At an entry, end the calls with the same stack pointer that are over.

        A call there that made a tail call is not over: it ends when the called one returns, to the
        same address. But it is over if it makes none, if it was left from within, or if it is of
        the same function: a loop that longjmp or an exception leads back to calls at the same place
        again and again.
        """
        there = _returning_at(thread, stack)
        if not there:
            return
        last = there[0]
        if isinstance(caller, int) and isinstance(last.caller, int):
            was_left |= caller != last.caller
        was_left |= not last.call.place.may_tail_call
        over = [each for each in there if was_left or each.call.place is place]
        if over:
            self._end_through(thread, over[-1])

    def _unwind_to(self, thread: CallStack, stack: int) -> bool:
        """End the calls below ``stack``; return whether a call was among them that can return."""
        was_left = False
        while thread and thread[-1].stack < stack:
            was_left |= thread[-1].has_return
            self._end_innermost(thread)
        return was_left

    def _return(self, rule: _PlaceRule, hit: Hit, thread: CallStack) -> None:
        self._unwind_to(thread, hit.stack)
        function = rule.place.function
        returned = False
        while _returning_at(thread, hit.stack):
            last = self._open.pop(thread)
            if not last.has_return:
                self._sink.ended(last.call)
            elif not returned and last.call.place.function == function:
                returned = True
                self._give_result(last.call, rule, hit)
                self._end_at(hit, last.call, last.dropped)
            else:  # it made a tail call, or its own return was lost
                self._end_at(hit, last.call, last.dropped)

    def _inlined_result(self, rule: _PlaceRule, hit: Hit, thread: CallStack) -> None:
        place = rule.place
        for each in thread.inlined():
            of = each.call.place
            if of.function == place.function and place.call_address in (None, of.address):
                self._open.remove(each)
                each.call.is_result_inferred = True
                each.call.is_end_doubtful = each.dropped != hit.dropped
                self._give_result(each.call, rule, hit)
                self._sink.ended(each.call)
                return

    def _end_previous(self, place: Place, stack: int, thread: CallStack) -> None:
        """End an inlined call of the same frame that did not reach the place of its result."""
        for each in thread.inlined():
            if each.call.place is place and each.stack == stack:
                self._open.remove(each)
                self._sink.ended(each.call)
                return

    def _end_at(self, hit: Hit, call: TracedCall, dropped: int) -> None:
        """End a call at the hit of its return; ``dropped``: how many hits were, at its entry."""
        call.duration_ns = hit.time_ns - call.time_ns
        call.is_end_doubtful = dropped != hit.dropped
        self._sink.ended(call)

    def _give_result(self, call: TracedCall, rule: _PlaceRule, hit: Hit) -> None:
        values = rule.read_results(hit.data, hit.failed)
        if values:
            # Go has functions with several results, which have names of their own.
            several = StructureValue("", tuple(values.items()))
            call.result = values.get(_RESULT, several)
            call.has_result = True

    def _end_through(self, thread: CallStack, first: OpenCall) -> None:
        while self._end_innermost(thread) is not first:
            pass

    def _end_innermost(self, thread: CallStack) -> OpenCall:
        last = self._open.pop(thread)
        self._sink.ended(last.call)
        return last

    def _forget(self, oldest: OpenCall) -> None:
        self.forgotten += 1
        self._sink.ended(oldest.call)


def _returning_at(thread: CallStack, stack: int) -> list[OpenCall]:
    """Return the innermost calls that began at ``stack`` and can return, the last one first."""
    found = []
    for each in reversed(thread):
        if each.stack != stack:
            break
        if each.has_return:
            found.append(each)
    return found


def _rules(places: Sequence[Place]) -> list[_PlaceRule]:
    returning = {(each.path, each.function) for each in places if each.kind is PlaceKind.RETURN}
    results = {
        (each.path, each.function, each.call_address)
        for each in places
        if each.kind is PlaceKind.INLINED_RESULT
    }

    def role(place: Place) -> _Role:
        if place.returns_at_once or (
            place.kind is PlaceKind.ENTRY and (place.path, place.function) in returning
        ):
            return _Role.BEGIN
        if place.kind is PlaceKind.INLINED and any(
            (place.path, place.function, address) in results for address in (None, place.address)
        ):
            return _Role.BEGIN_INLINED
        return _ENDS.get(place.kind, _Role.POINT)

    return [
        _PlaceRule(
            role(each),
            each,
            each.fetch,
            each.is_go,
            is_entry=each.kind is PlaceKind.ENTRY,
            has_stack=not each.is_go or any(step.kind is _STACK for step in each.fetch.steps),
            pair=pair,
            read_results=each.fetch.result_values if each.returns_at_once else each.fetch.values,
        )
        for each, pair in zip(places, pair_roles(places), strict=True)
    ]


_ENDS = {
    PlaceKind.RETURN: _Role.RETURN,
    PlaceKind.INLINED_RESULT: _Role.INLINED_RESULT,
}
