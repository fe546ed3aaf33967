"""A plan that is sent is the plan that was made; one that is forged is not believed."""

import copy
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sslsniff.analysis.checked_fields import INVALID
from sslsniff.elf.elf_file import Elf
from sslsniff.fetching.fetch import Fetch, FetchLimits
from sslsniff.fetching.fetch_tables import Use, probed_place
from sslsniff.fetching.trace_places import Place
from sslsniff.fetching.traced_values import Missing
from sslsniff.functions.places.file_plans import plan_places
from sslsniff.functions.places.plans import PlanOptions, TracePlan, WantedPlaces
from sslsniff.functions.workers import late_fetch
from sslsniff.functions.workers.plan_messages import PlannedFile, parse_plans, plans_message
from sslsniff.functions.workers.type_messages import parse_types
from tests.unit.functions.workers.looking import built

ALL = WantedPlaces(functions=("^(?!_)",), options=PlanOptions(results=True))
PROGRAMS = ("conventions.c", "conventions.cpp", "shapes.cpp")
JUNK: tuple[Any, ...] = (None, True, -1, 0, 7, 1 << 200, 0.5, "", "\x1b", "entry", [], [[]], {})
ROUNDS = 3000


class NoTypes:
    def at(self, address: int, /) -> None:
        return None


class Planned:
    """The plan of a program, what is known of its file, and the message."""

    def __init__(self, program: Path) -> None:
        with Elf(str(program)) as elf:
            self.plans = [each.with_tasks() for each in plan_places(elf, ALL)]
            spans = [(elf.offset(address), size) for address, size in elf.code_parts]
            size = elf.status.st_size
        self.file = PlannedFile(str(program), spans, size, FetchLimits(), NoTypes())
        self.message = json.loads(json.dumps(plans_message(self.plans)))

    def parsed(self, message: Any) -> list[TracePlan]:
        return parse_plans(message, self.file)


@pytest.fixture(scope="module", params=PROGRAMS)
def planned(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Planned:
    return Planned(built(tmp_path_factory.mktemp("program"), request.param))


def fetched(fetch: Fetch, chance: random.Random) -> Iterator[tuple[bytes, int]]:
    """Yield bytes that a probe may have fetched, and what failed."""
    for likely in ((0, 0, 1, 2, 65), range(256)):
        yield bytes(chance.choices(likely, k=fetch.data_bytes)), 0
    yield bytes(fetch.data_bytes), chance.getrandbits(64)


def values(fetch: Fetch, data: bytes, failed: int) -> list[Any]:
    address = fetch.return_address and fetch.return_address(data, failed)
    return [fetch.values(data, failed), fetch.result_values(data, failed), address]


@pytest.mark.tools
def test_a_plan_that_is_sent_is_the_same(planned: Planned) -> None:
    chance = random.Random(1)
    [own], [sent] = planned.plans, planned.parsed(planned.message)
    assert own._replace(places=()) == sent._replace(places=())
    assert len(own.places) > 40
    for one, other in zip(own.places, sent.places, strict=True):
        assert replace(one, fetch=Fetch()) == replace(other, fetch=Fetch())
        assert one.fetch.steps == other.fetch.steps
        for data, failed in fetched(one.fetch, chance):
            assert repr(values(one.fetch, data, failed)) == repr(values(other.fetch, data, failed))


@pytest.mark.tools
@pytest.mark.slow
def test_a_forged_plan_has_only_places_in_the_files_code(planned: Planned) -> None:
    """And values can be read by it, whatever they are."""
    chance = random.Random(2)
    refused = 0
    for _ in range(ROUNDS):
        message = forged(planned.message, chance)
        try:
            plans = planned.parsed(message)
        except INVALID:
            refused += 1
            continue
        for place in plans[0].places if plans else ():
            check_place(place, planned.file)
    assert refused > ROUNDS // 4


def check_place(place: Place, file: PlannedFile) -> None:
    assert place.path == file.path
    assert any(start <= place.offset < start + size for start, size in file.code)
    assert probed_place(place, Use.REPORT).data_bytes <= 4096
    data = bytes(place.fetch.data_bytes)
    values(place.fetch, data, 0)
    values(place.fetch, b"\xff" * len(data), 0)


def forged(message: Any, chance: random.Random) -> Any:
    """Return the message with something else at one place, mostly deep in it."""
    changed = copy.deepcopy({"plans": [small(message["plans"][0], chance)]})
    changed["types"] = copy.deepcopy(message["types"])
    node: Any = changed
    key: Any = chance.choice(("plans", "types"))
    while isinstance(node[key], list | dict) and node[key] and chance.random() < 0.95:
        node = node[key]
        key = chance.choice(range(len(node)) if isinstance(node, list) else list(node))
    if isinstance(node[key], int) and chance.random() < 0.5:
        node[key] += chance.choice((-1, 1, 1 << 12, 1 << 40, -(1 << 40)))
    else:
        node[key] = chance.choice(JUNK)
    return changed


def small(plan: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    return plan | {"places": chance.sample(plan["places"], 3)}


@pytest.mark.tools
def test_what_the_steps_do_not_fetch_is_not_read(planned: Planned) -> None:
    message = copy.deepcopy(planned.message)
    for row in message["plans"][0]["places"]:
        row[5][0], row[5][1] = [], 0
    [plan] = planned.parsed(message)
    shown = [value for each in plan.places for value in each.fetch.values(b"", 0).values()]
    assert shown
    # What is not fetched for another reason is compiled to the same steps: none.
    assert set(map(type, shown)) == {Missing} or Missing.UNREADABLE in shown


def test_types_that_have_themselves_in_them_are_refused() -> None:
    member = ["x", 0, 0, None]
    structure = ["structure", "s", 8, [member], False, [], None, False, None]
    with pytest.raises(INVALID):
        parse_types([structure])
    pointer = ["pointer", "s *", 8, False, 1]
    [first, _] = parse_types([pointer, structure])
    assert first.name == "s *"
    deep = [["integer", "int", 4, True]]
    deep += [["array", "a", 4, at, 1, False] for at in range(500)]
    with pytest.raises(INVALID):
        parse_types(deep)


# Where the limit is reached in a finaliser, Python drops the exception; it comes again.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.slow
def test_types_that_multiply_are_given_up_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """40 structures, each with the one before it twice: a million million members."""
    monkeypatch.setattr(late_fetch, "_MOST_CPU_S", 1)
    rows: list[Any] = [["integer", "int", 4, True]]
    for at in range(40):
        members = [["", 0, at, None], ["", 4, at, None]]
        rows.append(["structure", "s", 8, members, False, [], None, False, None])
    wanted = [["x", 40, [["number", [[1, 0, 0, 0]], 8]], "value"]]
    place = ["entry", "f", 0, 0, "emulated", [[], 0, "C", 0, [], wanted]]
    place += [None, None, None, None, None, True, False, False, False]
    plan = {"places": [place], "notes": [], "functions": 1, "undecided": [], "task": None}
    file = PlannedFile("program", [(0, 16)], 16, FetchLimits(), NoTypes())
    [parsed] = parse_plans({"plans": [plan], "types": rows}, file)
    assert parsed.places[0].fetch.values(b"", 0) == {"x": Missing.UNREADABLE}
