"""Finds the runs of agents: calls of models of which each continues the conversation of one before.

A call continues another one if its messages begin with those of the other and its answer, or if it
names that answer. An answer is looked for in the same process first, then in others of the machine:
a program may start one for each call. If several fit, the first that no call has continued counts.
A call that failed, and is made again by its process, is in the same run.

Memory: ``_MOST_ANSWERS`` digests with 700 bytes each, not the texts. Those that were not continued
for longest are forgotten; a call that would have continued one begins a run of its own.
"""

import itertools
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

from sslsniff.core.model import Exchange
from sslsniff.decoders.inner.models.model_call import ModelCall, RunPlace
from sslsniff.decoders.messages import Side
from sslsniff.forms.text.pieces import span_ns
from sslsniff.model_calls.conversations import (
    UNKNOWN,
    Digest,
    digest_of_id,
    digest_with_answer,
    digests,
    new_turns,
)
from sslsniff.model_calls.tool_uses import ToolUses

_MOST_ANSWERS = 10_000
_NAMES_ANSWERS = "openai.responses"
"""The API whose requests may name the answer that they continue."""
_MOST_ALIKE = 64
"""Of answers with the same conversation before them, the last ones are remembered."""


_MOST_TOOLS, _MOST_CHARACTERS = 20, 100
"""Of an answer that many tool calls are remembered, and so much of their ids and names."""


@dataclass(slots=True)
class _Run:
    number: int
    calls: int = 0


@dataclass(slots=True, eq=False)
class _Answer:
    """An answer that a call may continue. ``is_missing``: there is none, the call may come again.

    ``tools``: the tool calls in it, by id and name.
    """

    run: _Run
    machine: str | None
    role: Side | None
    pid: int
    tid: int
    ended_ns: int | None
    tools: list[tuple[str | None, str | None]]
    is_missing: bool
    is_continued: bool = False


class Runs:
    """Says of each call of a model where it belongs; they come in the order of their ends.

    ``uses``: the calls of tools by MCP that came before them.
    """

    def __init__(self, uses: ToolUses | None = None) -> None:
        self._uses = uses or ToolUses()
        self._numbers = itertools.count(1)
        self._answers: OrderedDict[Digest, list[_Answer]] = OrderedDict()
        self._count = 0

    def place(self, exchange: Exchange, call: ModelCall) -> RunPlace:
        """Return where ``call``, that of ``exchange``, belongs."""
        before = self._continued(exchange, call)
        run = _Run(next(self._numbers)) if before is None else before.run
        run.calls += 1
        tools: tuple[str, ...] = ()
        tools_ns = mcp_ns = None
        if before is not None and not before.is_continued:
            before.is_continued = True
            tools = _tools_between(before, call)
            if tools and before.ended_ns:
                between = (before.ended_ns, exchange.started_ns)
                tools_ns = span_ns(*between)
                mcp_ns = self._uses.between(exchange, tools, *between)
        self._remember(exchange, call, run)
        return RunPlace(run.number, run.calls, tools, tools_ns, mcp_ns)

    def _continued(self, exchange: Exchange, call: ModelCall) -> _Answer | None:
        """Return the answer that a call continues: that after the most messages."""
        known = digests(call)[::-1]
        if call.previous is not None:
            known.insert(0, digest_of_id(call.previous))
        if known:
            known.insert(0, _made_again(known[0], exchange, call))
        for digest in known:
            fitting = [each for each in self._answers.get(digest, ()) if _fits(each, exchange)]
            if fitting:
                self._answers.move_to_end(digest)
                found = min(fitting, key=lambda each: _distance(each, exchange))
                if found.is_missing:  # once: others that ask the same have nothing to do with it
                    self._forget(digest, found)
                return found
        return None

    def _remember(self, exchange: Exchange, call: ModelCall, run: _Run) -> None:
        for digest, is_missing in _what_may_follow(exchange, call):
            connection = exchange.connection
            alike = self._answers.setdefault(digest, [])
            alike.append(
                _Answer(
                    run,
                    connection.process.machine,
                    connection.role,
                    connection.process.pid,
                    exchange.tid,
                    call.complete_ns or exchange.ended_ns,
                    [(_cut(each.id), _cut(each.name)) for each in call.tool_calls[:_MOST_TOOLS]],
                    is_missing,
                )
            )
            self._count += 1
            self._answers.move_to_end(digest)
            if len(alike) > _MOST_ALIKE:
                self._forget(digest, alike[0])
        while self._count > _MOST_ANSWERS:
            _, forgotten = self._answers.popitem(last=False)
            self._count -= len(forgotten)

    def _forget(self, digest: Digest, answer: _Answer) -> None:
        alike = self._answers[digest]
        alike.remove(answer)
        self._count -= 1
        if not alike:
            del self._answers[digest]


def _what_may_follow(exchange: Exchange, call: ModelCall) -> Iterator[tuple[Digest, bool]]:
    """Yield how conversations begin that go on after a call, and whether it is made again there."""
    is_failed = exchange.error is not None or call.error is not None or not call.has_output
    if is_failed and (asked := digests(call)):
        yield _made_again(asked[-1], exchange, call), True
    if call.has_output:
        if (answered := digest_with_answer(call)) is not None:
            yield answered, False
        if call.id is not None and call.api == _NAMES_ANSWERS:
            yield digest_of_id(call.id), False


def _made_again(asked: Digest, exchange: Exchange, call: ModelCall) -> Digest:
    """Return what stands for the call that a process makes again with the same messages."""
    return digest_of_id(f"{exchange.connection.process.pid} {call.api} {asked.hex()}")


def _fits(answer: _Answer, exchange: Exchange) -> bool:
    """Return whether a call may continue an answer: seen on the same side, and after it."""
    connection = exchange.connection
    started_ns = exchange.started_ns  # 0: not known
    is_after = not answer.ended_ns or not started_ns or started_ns >= answer.ended_ns
    here = (connection.process.machine, connection.role)
    return (answer.machine, answer.role) == here and is_after


def _distance(answer: _Answer, exchange: Exchange) -> tuple[bool, bool, bool]:
    """Return what tells answers that fit: the least counts, of equal ones the first."""
    is_other_process = answer.pid != exchange.connection.process.pid
    return is_other_process, answer.is_continued, answer.tid != exchange.tid


def _cut(text: str | None) -> str | None:
    return text and text[:_MOST_CHARACTERS]


def _tools_between(before: _Answer, call: ModelCall) -> tuple[str, ...]:
    """Return the names of the tools whose results a call brings; servers run others themselves."""
    results = {_cut(each) for turn in new_turns(call) for each in turn.results}
    named = [
        name or UNKNOWN
        for id, name in before.tools
        if id in results or name in results or UNKNOWN in results
    ]
    return tuple(dict.fromkeys(named))
