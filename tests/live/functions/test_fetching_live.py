"""The kernel runs each kind of step of a fetch program as ``StepKind`` says."""

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from sslsniff.capture.scope import Scope
from sslsniff.core.events import Exited
from sslsniff.fetching.fetch_steps import MOST_DATA_BYTES, MOST_STEPS, FetchStep, StepKind
from sslsniff.fetching.fetch_tables import DATA_SIZES
from sslsniff.fetching.hit_records import Hit
from sslsniff.fetching.trace_places import PlaceKind
from sslsniff.functions.capture.function_capture import RING_BYTES, FunctionCapture
from sslsniff.kernel import release
from sslsniff.kernel.loaders import uprobe_multi
from tests.live.functions.fetched import (
    MAPPED,
    MEMORY,
    RDI,
    REGISTERS,
    TEXT,
    UNUSED,
    Fetched,
    Passer,
    build,
    memory,
    pass_place,
    place,
)
from tests.workload.processes import started

pytestmark = pytest.mark.live

_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1
_WORD = (1 << 64) - 1
_RESULT, _INSTRUCTION, _FLAGS, _STACK_POINTER = 10, 16, 18, 19
SMALL_RING = 1 << 21
_UNMAPPED = MEMORY + MAPPED
Steps = tuple[FetchStep, ...]


def step(kind: str, value: int = 0, offset: int = 0, item: int = 0) -> FetchStep:
    return FetchStep(StepKind[kind], value, offset, item)


def number(value: int) -> Steps:
    """Return steps that push 64 bits."""
    low = (value & 0xFFFFFFFF) - (value >> 31 & 1) * (1 << 32)
    high = (value >> 32 & 0xFFFFFFFF) - (value >> 63 & 1) * (1 << 32)
    return (step("CONSTANT", low), step("HIGH_HALF", high))


def word(value: int) -> bytes:
    return (value & _WORD).to_bytes(8, "little")


STORE = (step("STORE"),)


class Case(NamedTuple):
    name: str
    steps: Steps
    data: bytes
    failed: int = 0


def binary(kind: str, first: int, second: int, result: int) -> Case:
    name = f"{kind} {first:#x} {second:#x}"
    return Case(name, (*number(first), *number(second), step(kind), *STORE), word(result))


def comparison(first: int, second: int, unsigned: int, signed: int) -> list[Case]:
    """Return cases of all comparisons; ``unsigned`` and ``signed``: -1 less, 0 equal, 1 more."""
    return [
        binary("EQUAL", first, second, unsigned == 0),
        binary("NOT_EQUAL", first, second, unsigned != 0),
        binary("LESS", first, second, unsigned < 0),
        binary("LESS_OR_EQUAL", first, second, unsigned <= 0),
        binary("LESS_SIGNED", first, second, signed < 0),
        binary("LESS_OR_EQUAL_SIGNED", first, second, signed <= 0),
    ]


def read(size: int) -> Case:
    steps = (*number(MEMORY), step("READ", 3, item=size), *STORE)
    return Case(f"READ {size}", steps, memory(3, size).ljust(8, b"\0"))


CASES = [
    *(
        Case(f"REGISTER {index}", (step("REGISTER", index), *STORE), word(REGISTERS + index))
        for index in range(RDI)
    ),
    Case("CONSTANT", (step("CONSTANT", -2), *STORE), word(-2)),
    Case("HIGH_HALF", (*number(0xFEDCBA9876543210), *STORE), word(0xFEDCBA9876543210)),
    Case(
        "THREAD_POINTER", (step("THREAD_POINTER"), step("READ", 0, item=8), *STORE), b"thread"
    ),  # the word there is its own address (x86-64 psABI, thread-local storage)
    Case("THREAD_POINTER itself", (step("THREAD_POINTER"), *STORE), b"thread"),
    Case(
        "LOAD",
        (
            *number(7),
            step("STORE", offset=16),
            step("LOAD", offset=16),
            step("ADD_CONSTANT", 1),
            *STORE,
        ),
        word(8) + word(0) + word(7),
    ),
    Case(
        "PICK",
        (*number(5), *number(6), *number(7), step("PICK", 2), step("PICK", 0), step("ADD"), *STORE),
        word(10),
    ),
    Case("SWAP", (*number(5), *number(3), step("SWAP"), step("SUBTRACT"), *STORE), word(-2)),
    Case("POP", (*number(5), *number(3), step("POP"), *STORE), word(5)),
    Case("ADD_CONSTANT", (*number(5), step("ADD_CONSTANT", -7), *STORE), word(-2)),
    *(read(size) for size in (1, 2, 4, 8)),
    Case(
        "READ negative",
        (*number(MEMORY + 16), step("READ", -16, item=8), *STORE),
        memory(0, 8),
    ),
    binary("ADD", _WORD, 3, 2),
    binary("SUBTRACT", 3, 5, -2),
    binary("MULTIPLY", 1 << 40, 1 << 25, 0),
    binary("MULTIPLY", -3, 5, -15),
    binary("DIVIDE", -7, 2, -3),
    binary("DIVIDE", 7, -2, -3),
    binary("DIVIDE", -7, -2, 3),
    binary("DIVIDE", 7, 0, 0),
    binary("DIVIDE", _LOWEST, -1, _LOWEST),
    binary("AND", 0xFF00FF00FF00, 0x0FF00FF00FF0, 0x0F000F000F00),
    binary("OR", 0xFF00FF00FF00, 0x0FF00FF00FF0, 0xFFF0FFF0FFF0),
    binary("XOR", 0xFF00FF00FF00, 0x0FF00FF00FF0, 0xF0F0F0F0F0F0),
    binary("SHIFT_LEFT", 3, 62, 3 << 62),
    binary("SHIFT_LEFT", 3, 64, 0),
    binary("SHIFT_RIGHT", _WORD, 60, 15),
    binary("SHIFT_RIGHT", _WORD, 1 << 40, 0),
    binary("SHIFT_RIGHT_SIGNED", -8, 2, -2),
    binary("SHIFT_RIGHT_SIGNED", -8, 64, -1),
    *comparison(5, 5, 0, 0),
    *comparison(_HIGHEST, _LOWEST, -1, 1),
    *comparison(-1, 1, 1, -1),
    Case("NEGATE", (*number(5), step("NEGATE"), *STORE), word(-5)),
    Case("COMPLEMENT", (*number(5), step("COMPLEMENT"), *STORE), word(~5)),
    Case("STORE unaligned", (*number(-1), step("STORE", offset=13)), bytes(13) + word(-1)),
    Case("COPY", (*number(MEMORY + 5), step("COPY", 21, 3)), bytes(3) + memory(5, 21)),
    Case("COPY nothing", (*number(_UNMAPPED), step("COPY", 0)), b""),
    Case("COPY to the end", (*number(MEMORY), step("COPY", 64)), memory(0, 64)),
    Case(
        "COPY_SIZED",
        (*number(MEMORY), *number(9), step("COPY_SIZED", 30, 1)),
        bytes(1) + memory(0, 9),
    ),
    Case(
        "COPY_SIZED at most",
        (*number(MEMORY), *number(-1), step("COPY_SIZED", 30)),
        memory(0, 30),
    ),
    Case("COPY_SIZED nothing", (*number(_UNMAPPED), *number(0), step("COPY_SIZED", 30)), b""),
    Case("COPY_TEXT", (*number(TEXT), step("COPY_TEXT", 64)), b"short"),
    Case("COPY_TEXT cut", (*number(TEXT), step("COPY_TEXT", 3)), b"sho"),
    Case("COPY_TEXT without its zero byte", (*number(TEXT), step("COPY_TEXT", 5)), b"short"),
    Case("COPY_TEXT with it", (*number(TEXT), step("COPY_TEXT", 6)), b"short\0"),
    Case("COPY_TEXT, long", (*number(MEMORY), step("COPY_TEXT", 40)), memory(0, 40)),
    Case(
        "the stack is empty after an item",
        (*number(1), *number(2), *STORE, *number(3), step("STORE", offset=8, item=1)),
        word(2) + word(3),
    ),
    Case("END", (*number(1), *STORE, step("END"), *number(2), *STORE), word(1)),
    Case(
        "as many steps as there can be",
        (*number(0), *(step("ADD_CONSTANT", 1),) * (MOST_STEPS - 3), *STORE),
        word(MOST_STEPS - 3),
    ),
    Case(
        "a read fails",
        (
            *number(0),
            *(step("READ", item=8), step("STORE", offset=0, item=63)),
            *(*number(4), step("STORE", offset=8, item=1)),
        ),
        word(0) + word(4),
        1 << 63,
    ),
    Case(
        "what is computed from a failed read",
        (*number(_UNMAPPED), step("READ", item=1), *number(MEMORY), step("ADD"), step("COPY", 8)),
        b"",
        1,
    ),
    Case("a copy fails", (*number(_UNMAPPED - 4), step("COPY", 8, item=2)), b"", 4),
    Case("a text fails", (*number(_UNMAPPED - 4), step("COPY_TEXT", 8, item=3)), b"", 8),
    Case(
        "a copy with a size fails",
        (*number(-1), *number(3), step("COPY_SIZED", 8, item=4)),
        b"",
        16,
    ),
    Case("kernel memory", (*number(0xFFFFFFFF81000000), step("COPY", 8)), b"", 1),
    Case("beyond the data", (*number(MEMORY), step("COPY", 8, 60)), b"", 1),
    Case("far beyond the data", (*number(MEMORY), step("COPY", _HIGHEST >> 32, 65535)), b"", 1),
    Case("a word beyond the data", (*number(MEMORY), step("STORE", 0, 57)), b"", 1),
]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("fetched"))


@pytest.fixture(scope="module", params=["can wait", "cannot wait"])
def hits(program: Path, request: pytest.FixtureRequest) -> list[Hit]:
    """Return a hit of each case: all are at the same place."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "cannot wait":
            patch.setattr(release, "has_waiting_uprobes", lambda: False)
        return _hits_of_cases(program)


def _hits_of_cases(program: Path) -> list[Hit]:
    with Fetched(program, [place(program, case.steps, 64) for case in CASES]) as fetched:
        found, (pid, tid, _) = fetched.passes("c1")
    assert {(hit.pid, hit.tid) for hit in found} == {(pid, tid)}
    return sorted(found, key=lambda hit: hit.place)


@pytest.mark.parametrize(("index", "case"), list(enumerate(CASES)), ids=[e.name for e in CASES])
def test_steps(index: int, case: Case, hits: list[Hit]) -> None:
    assert len(hits) == len(CASES)
    assert hits[index].place == index
    if case.data == b"thread":
        [other] = [each for each in CASES if each.name == "THREAD_POINTER"]
        assert hits[index].data == hits[CASES.index(other)].data
        assert any(hits[index].data)
    else:
        assert hits[index].data == case.data.ljust(64, b"\0")
    assert hits[index].failed == case.failed


UNUSED_CASES = [
    Case("read", (*number(UNUSED + 8), step("READ", item=4), *STORE), b""),
    Case("over the end of a page", (*number(UNUSED + 8190), step("COPY", 8)), b""),
    Case(
        "several items",
        (
            *(*number(UNUSED + 0x4000), step("COPY", 8)),
            *(*number(UNUSED + 0x5000), step("COPY_TEXT", 8, 8, 1)),
            *(*number(UNUSED + 0x6FFC), *number(8), step("COPY_SIZED", 8, 8, 2)),
        ),
        b"",
    ),
    Case(
        "a condition",
        (
            *number(UNUSED + 0x8000),
            step("READ", item=4),
            *number(0),
            step("EQUAL"),
            step("KEEP_IF"),
        ),
        b"",
    ),
]


@pytest.mark.parametrize("case", UNUSED_CASES, ids=[each.name for each in UNUSED_CASES])
def test_memory_that_was_never_used_is_read(case: Case, program: Path) -> None:
    with Fetched(program, [place(program, case.steps, 64)]) as fetched:
        [hit], _ = fetched.passes("c1")
    assert (hit.data, hit.failed) == (bytes(64), 0)


def test_without_waiting_memory_that_was_never_used_cannot_be_read(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(release, "has_waiting_uprobes", lambda: False)
    with Fetched(program, [place(program, UNUSED_CASES[0].steps, 64)]) as fetched:
        [hit], _ = fetched.passes("c1")
    assert (hit.data, hit.failed) == (bytes(64), 1)


def test_registers_beside_the_general_ones(program: Path) -> None:
    numbers = (_INSTRUCTION, _FLAGS, _STACK_POINTER)
    steps = [
        each
        for item, index in enumerate(numbers)
        for each in (step("REGISTER", index), step("STORE", 0, 8 * item, item))
    ]
    probed = place(program, steps, 24)
    with Fetched(program, [probed]) as fetched:
        [hit], _ = fetched.passes("c1")
    instruction, flags, stack = (hit.data[at : at + 8] for at in (0, 8, 16))
    assert instruction == word(probed.address)
    assert flags[0] & 1
    assert stack == word(hit.stack)


def test_a_hit_says_its_task_and_the_stack_of_its_call(program: Path) -> None:
    steps = (*number(77), step("TASK"), *number(1 << 40), step("STACK"))
    failing = (
        *(*number(0), step("READ", item=8), step("TASK")),
        *(*number(0), step("READ", item=8), step("STACK")),
        *(*number(5), step("STORE")),
    )
    with Fetched(program, [place(program, steps), place(program, failing, 8)]) as fetched:
        [first, second], _ = sorted_by_place(fetched.passes("c1"))
    assert (first.task, first.stack) == (77, 1 << 40)
    assert (second.task, second.failed, second.data) == (0, 0, word(5))
    assert second.stack > 1 << 40


def sorted_by_place(passed: tuple[list[Hit], Passer]) -> tuple[list[Hit], Passer]:
    return sorted(passed[0], key=lambda hit: hit.place), passed[1]


def test_a_condition_decides_what_is_reported(program: Path) -> None:
    """rdi is 0, 1, 2 ...: 5 and above."""
    condition = (step("REGISTER", RDI), *number(5), step("SWAP"), step("LESS_OR_EQUAL_SIGNED"))
    kept = place(program, (*condition, step("KEEP_IF"), step("REGISTER", RDI), *STORE), 8)
    unreadable = place(program, (*number(0), step("READ", item=8), step("KEEP_IF")))
    with Fetched(program, [kept, unreadable]) as fetched:
        found, _ = fetched.passes("c1000")
        assert [hit.data for hit in found] == [word(at) for at in range(5, 1000)]
        assert fetched.capture.lost_hits() == 0


@pytest.mark.parametrize("size", DATA_SIZES)
def test_a_hit_has_room_for_what_is_fetched(size: int, program: Path) -> None:
    """All of it is right in many turns of the ring, of which most bytes were used before."""
    whole = (*number(MEMORY), step("COPY", size))
    few = (*number(MEMORY + 5), step("REGISTER", RDI), step("COPY_SIZED", size))
    next_size = (*number(MEMORY), step("COPY", size - 1, 2))
    places = [
        place(program, whole, size),
        place(program, few, size),
        place(program, next_size if size < MOST_DATA_BYTES else (), size + 1),
    ]
    with Fetched(program, places[: 2 + (size < MOST_DATA_BYTES)], SMALL_RING) as fetched:
        for _ in range(5):
            found, _ = fetched.passes("c700")
            shown: list[list[bytes]] = [[], [], []]
            for hit in found:
                shown[hit.place].append(hit.data)
            assert shown[0] == [memory(0, size)] * len(shown[0])
            assert shown[1] == [
                memory(5, min(at, size)).ljust(size, b"\0") for at in range(len(shown[1]))
            ]
            assert shown[2] == [bytes(2) + memory(0, size - 1)] * len(shown[2])
            assert len(found) > 200


LONG_CASES = [
    Case("copy", (*number(MEMORY + 1), step("COPY", 4000, 7)), bytes(7) + memory(1, 4000)),
    Case(
        "copy sized",
        (*number(MEMORY), *number(1234), step("COPY_SIZED", 4096)),
        memory(0, 1234),
    ),
    Case("text", (*number(MEMORY + 2), step("COPY_TEXT", 4000)), memory(2, 4000)),
    Case(
        "text up to its end",
        (*number(TEXT - 600), step("COPY_TEXT", 4000)),
        memory(4096 - 600, 600) + b"short",
    ),
    *(
        Case(
            f"text of {size}",
            (*number(TEXT + 5 - size), step("COPY_TEXT", most)),
            (memory(4096 + 5 - size, size - 5) + b"short")[:most],
        )
        for size in (255, 256, 257, 511, 512, 513)
        for most in (256, 257, 512, 4096)
    ),
    Case("copy fails", (*number(_UNMAPPED - 1000), step("COPY", 1001, 5)), b"", 1),
    Case("text fails", (*number(_UNMAPPED - 1000), step("COPY_TEXT", 1001, 5)), b"", 1),
]


def test_long_items(program: Path) -> None:
    """They are copied in parts of 256 bytes."""
    places = [place(program, case.steps, 4096) for case in LONG_CASES]
    with Fetched(program, places, RING_BYTES) as fetched:
        found, _ = sorted_by_place(fetched.passes("c1"))
    for hit, case in zip(found, LONG_CASES, strict=True):
        assert hit.failed == case.failed, case.name
        assert hit.data == case.data.ljust(4096, b"\0"), case.name


def test_no_hit_is_lost(program: Path) -> None:
    counted = place(program, (step("REGISTER", RDI), *STORE), 8)
    with Fetched(program, [counted], RING_BYTES) as fetched:
        assert fetched.process.stdin is not None
        fetched.process.stdin.write("c100000 end\n")
        fetched.process.stdin.flush()
        found: list[Hit | Exited] = []
        while not fetched.capture.ended:
            found += fetched.capture.poll(0.1)
        found += fetched.capture.finish()
        *passed, exited = found
        assert fetched.capture.lost_hits() == 0
    assert isinstance(exited, Exited)
    assert exited.pid == fetched.process.pid
    hits = [each for each in passed if isinstance(each, Hit)]
    assert [hit.data for hit in hits] == [word(at) for at in range(100000)]
    assert sorted(hit.time_ns for hit in hits) == [hit.time_ns for hit in hits]


def test_hits_without_room_are_counted(program: Path) -> None:
    with Fetched(program, [place(program)], SMALL_RING) as fetched:
        found, _ = fetched.passes("c10000")
        assert len(found) > 5000
        assert fetched.capture.lost_hits() == 10000 - len(found) > 0


def test_children_and_threads_are_followed_and_no_other_process(program: Path) -> None:
    with Fetched(program, [place(program)]) as fetched, started(program) as other:
        for how in ("f2", "t2", "c2"):
            pass_place(other, how)
            found, (pid, tid, _) = fetched.passes(how)
            assert [(hit.pid, hit.tid) for hit in found] == [(pid, tid)] * 2
            assert (how == "f2") == (pid != fetched.process.pid)
            assert (how == "t2") == (tid != pid)
        [exited] = fetched.until_end()
        assert isinstance(exited, Exited)
        assert fetched.capture.ended


@pytest.fixture(params=["uprobe multi links", "perf events"])
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attach by each way that kernels have; those before 6.6 have only the second."""
    if request.param == "perf events":
        monkeypatch.setattr(uprobe_multi, "is_supported", lambda: False)


@pytest.mark.usefixtures("_way")
def test_a_semaphore_is_counted_up_while_it_is_probed(program: Path) -> None:
    with started(program) as process:
        assert pass_place(process, "c1").semaphore == 0
        places = [place(program, has_semaphore=True), place(program, has_semaphore=True)]
        with FunctionCapture(places, Scope(pids=(process.pid,))) as capture:
            assert pass_place(process, "c2").semaphore == 1
            assert pass_place(process, "f2").semaphore == 1
            found = [*capture.poll(0), *capture.finish()]
            assert (
                sorted(each.place for each in found if isinstance(each, Hit)) == [0] * 4 + [1] * 4
            )
            assert pass_place(process, "c1").semaphore == 0


@pytest.mark.usefixtures("_way")
def test_a_return_is_reported_by_trampoline(program: Path) -> None:
    """usleep returns 0; the stack pointer is above the return address."""
    result = (step("REGISTER", _RESULT), *STORE)
    entry = place(program, symbol="timed", kind=PlaceKind.ENTRY)
    end = place(program, result, 8, symbol="timed", kind=PlaceKind.RETURN)
    with Fetched(program, [entry, replace(end, by_trampoline=True)]) as fetched:
        pass_place(fetched.process, "s1")
        entered, returned = fetched.capture.poll(0)
    assert isinstance(entered, Hit)
    assert isinstance(returned, Hit)
    assert (entered.place, returned.place) == (0, 1)
    assert returned.stack == entered.stack + 8
    assert returned.data == word(0)
    assert 2e6 < returned.time_ns - entered.time_ns < 1e9
