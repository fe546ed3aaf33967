"""Which calls belong to one run of an agent: by their messages, as clients send them again."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from sslsniff.core.model import Exchange
from sslsniff.core.process import Process
from sslsniff.decoders.inner.models.model_call import ModelCall, RunPlace, ToolCall, Turn
from sslsniff.decoders.messages import Side
from sslsniff.model_calls.run_places import RunPlaces
from sslsniff.model_calls.runs import _MOST_ALIKE, _MOST_ANSWERS, Runs
from tests.unit.exchanges import START_NS, connection, exchange, request, response

MS = 1_000_000
_ids = itertools.count(1)


class Agent:
    """A client that sends each conversation again, with what came since."""

    def __init__(self, runs: Runs, pid: int = 7, task: str = "Do it.", tid: int = 70) -> None:
        self.runs, self.pid, self.tid = runs, pid, tid
        self.turns = [Turn("user", task)]
        self.now_ns = START_NS
        self.role, self.machine, self.api = Side.CLIENT, "", "openai.chat"

    def asked(self, text: str = "", *tools: str, error: str | None = None) -> RunPlace:
        """Make a call that the model answers; return where it belongs."""
        call = ModelCall(self.api, None, messages=[*self.turns], error=error)
        call.add_text(text)
        for name in tools:
            call.add_tool_call(None, f"call_{next(_ids)}", name, '{"a": 1, "b": [2]}')
        self.now_ns += 5 * MS
        return self.runs.place(self.made(call), call)

    def made(self, call: ModelCall) -> Exchange:
        """Return the exchange of a call that ends now."""
        on = connection(pid=self.pid)
        on.process.machine, on.role = self.machine or None, self.role
        made = exchange(request("POST"), response(), on)
        made.model_call, made.tid = call, self.tid
        made.started_ns, made.ended_ns = self.now_ns - 5 * MS, self.now_ns
        self.last = call
        return made

    def add_answer(self) -> None:
        """Add the last answer to the conversation, as most clients do."""
        self.turns.append(Turn("assistant", "".join(self.last.texts), [], self.last.tool_calls))

    def add_results(self, spent_ns: int = 20 * MS) -> None:
        """Add the results of the tools that the last answer called."""
        self.add_answer()
        self.now_ns += spent_ns
        for each in self.last.tool_calls:
            self.turns.append(Turn("tool", "done", results=[each.id or "?"]))

    def add_question(self, text: str = "Go on.") -> None:
        self.add_answer()
        self.turns.append(Turn("user", text))


@pytest.fixture
def runs() -> Runs:
    return Runs()


def test_a_loop_of_tools(runs: Runs) -> None:
    agent = Agent(runs)
    places = [agent.asked("", "read_file")]
    agent.add_results()
    places.append(agent.asked("Well.", "run_sql", "read_file", "run_sql"))
    agent.add_results(30 * MS)
    places.append(agent.asked("Done."))
    agent.add_question()
    places.append(agent.asked("Really."))
    assert places == [
        RunPlace(1, 1),
        RunPlace(1, 2, ("read_file",), 20 * MS),
        RunPlace(1, 3, ("run_sql", "read_file"), 30 * MS),
        RunPlace(1, 4),
    ]


def test_another_task_is_another_run(runs: Runs) -> None:
    first, second = Agent(runs), Agent(runs, task="Do that.")
    assert [first.asked("Yes.").run, second.asked("Yes.").run] == [1, 2]
    for each in (first, second):
        each.add_question()
    assert [second.asked("Yes.")[:2], first.asked("Yes.")[:2]] == [(2, 2), (1, 2)]


def test_another_answer_is_another_run(runs: Runs) -> None:
    agent = Agent(runs)
    agent.asked("Yes.")
    agent.turns += [Turn("assistant", "No."), Turn("user", "Why?")]
    assert agent.asked("So.") == RunPlace(2, 1)


@pytest.mark.parametrize("pids", [(7, 7), (7, 8)], ids=["one process", "two processes"])
@pytest.mark.parametrize("tools", [("read_file",), ()], ids=["ids differ", "all alike"])
def test_equal_agents_that_take_turns(
    runs: Runs, pids: tuple[int, int], tools: tuple[str, ...]
) -> None:
    agents = [Agent(runs, pid, tid=70 + n) for n, pid in enumerate(pids)]
    for position in (1, 2, 3):
        for number in (1, 2):
            agent = agents[number - 1]
            assert agent.asked("Yes.", *tools)[:2] == (number, position)
            agent.add_results()
            agent.turns.append(Turn("user", "Go on."))


def test_a_process_for_each_call(runs: Runs) -> None:
    """What another process began is continued, unless the process has begun the same itself."""
    agent = Agent(runs, pid=7)
    agent.asked("Yes.")
    agent.add_question()
    agent.pid = 8
    assert agent.asked("No.")[:2] == (1, 2)
    agent.machine = "other"
    agent.add_question()
    assert agent.asked("So.") == RunPlace(2, 1)


def test_both_ends_of_a_connection_are_runs_of_their_own(runs: Runs) -> None:
    agent = Agent(runs)
    agent.asked("Yes.")
    agent.add_question()
    agent.role, agent.pid = Side.SERVER, 9
    assert agent.asked("No.") == RunPlace(2, 1)


def test_an_answer_that_came_later_is_not_continued(runs: Runs) -> None:
    agent = Agent(runs)
    agent.asked("Yes.")
    agent.add_question()
    agent.now_ns -= 2 * MS
    assert agent.asked("No.") == RunPlace(2, 1)


def test_a_call_that_failed_is_made_again(runs: Runs) -> None:
    """In the same run, and by the same process only. Tools are not counted twice."""
    agent, other = Agent(runs), Agent(runs, pid=8)
    assert agent.asked(error="overloaded")[:2] == (1, 1)
    assert other.asked("Yes.")[:2] == (2, 1)
    assert agent.asked("", "read_file")[:2] == (1, 2)
    agent.add_results()
    assert agent.asked(error="overloaded") == RunPlace(1, 3, ("read_file",), 20 * MS)
    agent.now_ns += 100 * MS
    assert agent.asked("Done.") == RunPlace(1, 4)
    # The same question once more is another conversation.
    again = Agent(runs)
    again.now_ns = agent.now_ns
    assert again.asked("Yes.") == RunPlace(3, 1)


def test_an_answer_may_be_continued_twice(runs: Runs) -> None:
    agent = Agent(runs)
    agent.asked("", "read_file")
    agent.add_results()
    turns = [*agent.turns]
    assert agent.asked("Done.")[:2] == (1, 2)
    agent.turns = turns
    assert agent.asked("Done, otherwise.") == RunPlace(1, 3)


def rewritten(turn: Turn) -> Iterator[list[Turn]]:
    """Yield messages that mean the same as the answer ``turn``."""
    calls = turn.tool_calls
    swapped = [ToolCall(None, each.id, each.name, '{"b":[2],"a":1}') for each in calls]
    yield [Turn("assistant", turn.text, [], swapped)]
    yield [Turn("assistant", "Well.\nIt is.", [], calls)]
    yield [Turn("assistant", turn.text, ["thinking"], calls)]
    yield [
        Turn("?", other=["reasoning"]),
        Turn("assistant", turn.text),
        Turn("model", "", [], calls),
    ]
    yield [turn, Turn("system", "It is late.")]


@pytest.mark.parametrize("form", range(5))
def test_clients_write_the_same_otherwise(form: int, runs: Runs) -> None:
    agent = Agent(runs)
    agent.turns.insert(0, Turn("system", "It is 10:00."))
    agent.asked("Well. It is.", "read_file")
    agent.add_results()
    agent.turns[0] = Turn("system", "It is 10:01.")
    agent.turns[2:3] = [*rewritten(agent.turns[2])][form]
    assert agent.asked("Done.") == RunPlace(1, 2, ("read_file",), 20 * MS)


def test_arguments_that_are_empty(runs: Runs) -> None:
    """A stream of Anthropic has none, a request an empty object."""
    agent = Agent(runs)
    call = ModelCall("anthropic.messages", None, messages=[*agent.turns])
    call.add_tool_call(0, "call_1", "now")
    agent.now_ns += 5 * MS
    runs.place(agent.made(call), call)
    agent.turns.append(Turn("assistant", tool_calls=[ToolCall(None, "call_1", "now", "{}")]))
    agent.turns.append(Turn("user", other=["tool_result"], results=["call_1"]))
    assert agent.asked("Done.")[:3] == (1, 2, ("now",))


def test_an_answer_may_be_begun_by_the_client(runs: Runs) -> None:
    agent = Agent(runs)
    agent.turns.append(Turn("assistant", "{"))
    agent.asked('"a": 1}')
    agent.turns[-1:] = [Turn("assistant", '{"a": 1}'), Turn("user", "Why?")]
    assert agent.asked("So.")[:2] == (1, 2)


def test_a_request_may_name_the_answer_before_it(runs: Runs) -> None:
    agent = Agent(runs)
    agent.api = "openai.responses"
    first = ModelCall(agent.api, None, messages=[*agent.turns], id="resp_1")
    first.add_tool_call(0, "call_1", "read_file", "{}")
    next_one = ModelCall(agent.api, None, previous="resp_1")
    next_one.messages.append(Turn("tool", "done", results=["call_1"]))
    for call, place in ((first, (1, 1, ())), (next_one, (1, 2, ("read_file",)))):
        agent.now_ns += 5 * MS
        assert runs.place(agent.made(call), call)[:3] == place


def test_only_tools_whose_results_came_are_named(runs: Runs) -> None:
    """Others ran at the server of the model. Without ids, names tell; without names, all ran."""
    agent = Agent(runs)
    agent.asked("", "web_search", "read_file")
    agent.add_results()
    del agent.turns[-2]
    assert agent.asked("", "run_sql").tools == ("read_file",)
    agent.add_answer()
    agent.turns.append(Turn("tool", results=["run_sql"]))
    assert agent.asked("", "a", "b").tools == ("run_sql",)
    agent.add_answer()
    agent.turns.append(Turn("tool", results=["?"]))
    assert agent.asked("", "a").tools == ("a", "b")
    agent.add_question("Stop.")
    assert agent.asked("Stopped.") == RunPlace(1, 5)


def test_times_that_are_not_known(runs: Runs) -> None:
    agent = Agent(runs)
    agent.asked("", "read_file")
    agent.add_results()
    agent.now_ns = 0  # packets without a time
    assert agent.asked("Done.") == RunPlace(1, 2, ("read_file",), None)


def test_texts_of_any_kind(runs: Runs) -> None:
    agent = Agent(runs, task="\ud800\0\N{GRINNING FACE}")
    agent.asked("\udfff", "\ud800")
    agent.add_results()
    assert agent.asked("Yes.")[:2] == (1, 2)


def test_many_tools_with_long_names_are_cut(runs: Runs) -> None:
    agent = Agent(runs)
    agent.asked("", *(f"{number:04}" * 100 for number in range(1000)))
    agent.add_results()
    tools = agent.asked("Done.").tools
    assert (len(tools), max(map(len, tools))) == (20, 100)


def test_memory_is_bounded(runs: Runs) -> None:
    """Those that were not continued for longest are forgotten first."""
    for _ in range(_MOST_ALIKE + 5):
        Agent(runs).asked("Yes.")
    [alike] = runs._answers.values()
    assert (len(alike), runs._count) == (_MOST_ALIKE, _MOST_ALIKE)
    first, second = Agent(runs, task="a"), Agent(runs, task="b")
    for each in (first, second):
        begun = each.asked("Yes.").run
        each.add_question()
    for n in range(_MOST_ANSWERS):
        if n == _MOST_ANSWERS // 2:
            first.now_ns += 10 * MS
            assert first.asked("Yes.").position == 2
            first.add_question()
        Agent(runs, task=str(n)).asked("Yes.")
    assert runs._count == sum(map(len, runs._answers.values())) == _MOST_ANSWERS
    assert first.asked("No.").position == 3
    late = second.asked("No.")
    assert (late.position, late.run > begun) == (1, True)


def test_tools_of_servers_are_in_no_run() -> None:
    places = RunPlaces()
    made: list[Any] = [exchange(request(), response()) for _ in range(3)]
    made[1].model_call = ModelCall("mcp", None, method="tools/call")
    made[2].model_call = ModelCall("openai.chat", None, messages=[Turn("user", "Do it.")])
    for each in made:
        each.connection.process = Process(7, "a")
        places.exchange(each)
    assert made[1].model_call.run is None
    assert made[2].model_call.run == RunPlace(1, 1)
