"""Whatever ends in which order: the same exchanges are joined, and no others."""

import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sslsniff.core.model import Address, Connection, Exchange
from sslsniff.decoders.messages import Header, Side
from sslsniff.request_tree.request_trees import RequestTrees
from tests.unit.request_tree.systems import end_of, exchange, id_of, joined

pytestmark = pytest.mark.tools

Pairs = set[tuple[str, str]]

IDS = ("traceparent", "x-request-id")


@dataclass
class System:
    """Processes 1, 2, 3, ... of which each serves the one before, and the truth of who asked whom.

    ``few_ids``: requests have few different ids, so that others have the same.
    ``in_parallel``: a process may ask again before it is answered.
    """

    random: random.Random
    few_ids: bool
    in_parallel: bool
    connections: dict[tuple[int, int], tuple[Connection, Connection]] = field(default_factory=dict)
    busy_ms: dict[tuple[int, int], float] = field(default_factory=dict)
    exchanges: list[Exchange] = field(default_factory=list)
    belongs: list[tuple[Exchange, Exchange]] = field(default_factory=list)

    def ids(self) -> list[Header]:
        """Return new header fields with ids; perhaps none."""
        draw = self.random
        trace = draw.getrandbits(1) if self.few_ids else draw.getrandbits(120)
        made = {
            "traceparent": f"00-{trace + 1:032x}-{draw.getrandbits(60) + 1:016x}-01",
            "x-request-id": f"request-{trace:08}",
        }
        return [(name, made[name]) for name in IDS if draw.random() < 0.7]

    def passed_on(self, ids: list[Header]) -> list[Header]:
        """Return ids as a process passes them on: as they are, or with a span of its own."""
        draw = self.random
        shown = []
        for name, value in ids:
            if name == "traceparent" and value and draw.random() < 0.5:
                value = f"{value[:36]}{draw.getrandbits(60) + 1:016x}-01"
            shown.append((name, value))
        return shown if draw.random() < 0.9 else []

    def serve(self, process: int, begin_ms: float, end_ms: float, ids: list[Header]) -> None:
        """Let ``process`` be asked at a time: add the view of its client, and its own."""
        draw = self.random
        lane = 0
        while self.busy_ms.get((process, lane), 0) >= begin_ms:
            lane += 1
        self.busy_ms[process, lane] = end_ms + 0.001
        client, server = self.connections.setdefault(
            (process, lane), self.connection(process, lane)
        )
        target = draw.choice(["/", "/a"])
        # A write may be noted after the other end has read it.
        asked = exchange(client, begin_ms, end_ms, ids, target=target)
        starts_ms = begin_ms + draw.choice([0.0001, 0.1])
        ends_ms = end_ms - draw.choice([0.1, 0.2, 0.0001, 0])
        served = exchange(server, starts_ms, ends_ms, ids, target=target)
        self.exchanges += [asked, served]
        self.belongs.append((served, asked))
        if process < 4:
            at_ms = starts_ms + 0.5
            while at_ms + 2 < ends_ms and draw.random() < 0.7:
                until_ms = draw.uniform(at_ms + 1, ends_ms)
                before = len(self.exchanges)
                self.serve(process + 1, at_ms, until_ms, self.passed_on(ids))
                self.belongs.append((self.exchanges[before], served))
                at_ms = at_ms + 0.2 if self.in_parallel and draw.random() < 0.5 else until_ms

    def connection(self, process: int, lane: int) -> tuple[Connection, Connection]:
        """Return both ends of a new connection to ``process``."""
        address = Address(f"10.0.0.{process}", 443)
        from_start = self.random.random() < 0.5
        client, server = (
            end_of(pid, role, 1000 + lane, server=address, from_start=from_start)
            for pid, role in ((process - 1, Side.CLIENT), (process, Side.SERVER))
        )
        return client, server

    def truth(self) -> Pairs:
        return {(id_of(one), id_of(other)) for one, other in self.belongs}


def system(seed: int, requests: int, *, few_ids: bool = False, in_parallel: bool = False) -> System:
    made = System(random.Random(seed), few_ids, in_parallel)
    for _ in range(requests):
        begin_ms = made.random.uniform(0, 20)
        made.serve(1, begin_ms, begin_ms + made.random.uniform(2, 30), made.ids())
    return made


def edges_in_order(exchanges: list[Exchange], order: random.Random) -> Pairs:
    """Return the edges if all begin, and then end in a random order."""
    edges: Pairs = set()

    def show(members: list[Exchange]) -> None:
        edges.update(
            (each.tree.id, each.tree.parent) for each in members if each.tree and each.tree.parent
        )

    trees = RequestTrees(show)
    for each in sorted(exchanges, key=lambda each: each.started_ns):
        trees.begin(each)
    ends = [*exchanges]
    order.shuffle(ends)
    for each in ends:
        trees.end(each)
    trees.finish()
    return edges


@settings(max_examples=300)
@given(st.integers(0, 1 << 32), st.integers(1, 12), st.booleans())
def test_the_order_of_ends_does_not_matter(seed: int, requests: int, few_ids: bool) -> None:
    made = system(seed, requests, few_ids=few_ids, in_parallel=True)
    in_time, _, _ = joined(made.exchanges)
    shuffled = edges_in_order(made.exchanges, random.Random(seed))
    assert {(one, other) for one, other, _ in in_time} == shuffled


@settings(max_examples=300)
@given(st.integers(0, 1 << 32), st.integers(1, 12), st.booleans())
def test_no_edge_is_wrong(seed: int, requests: int, few_ids: bool) -> None:
    made = system(seed, requests, few_ids=few_ids, in_parallel=True)
    edges, _, trees = joined(made.exchanges)
    wrong = {(one, other) for one, other, _ in edges} - made.truth()
    assert not wrong
    shown = [each for tree in trees for each in tree]
    assert sorted(shown) == sorted(id_of(each) for each in made.exchanges)


@settings(max_examples=100)
@given(st.integers(0, 1 << 32))
def test_all_ends_and_all_ids_are_joined(seed: int) -> None:
    made = system(seed, 10)
    edges = {(one, other) for one, other, _ in joined(made.exchanges)[0]}
    expected = {
        (id_of(one), id_of(other))
        for one, other in made.belongs
        if one.connection.role is Side.SERVER or (one.request and one.request.headers)
    }
    assert edges == expected
