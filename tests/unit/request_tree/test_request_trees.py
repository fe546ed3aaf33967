"""Which exchanges are joined to one request, and which are left apart."""

import pytest

from sslsniff.core.events import Data
from sslsniff.core.losses import LossCause
from sslsniff.core.model import Address, Direction, Exchange
from sslsniff.core.process import Container
from sslsniff.decoders.messages import Side
from sslsniff.request_tree import request_trees
from sslsniff.request_tree.request_trees import RequestTrees
from sslsniff.request_tree.task_notes import TaskNotes
from tests.unit.request_tree.systems import (
    MS,
    START_NS,
    Edge,
    end_of,
    exchange,
    id_of,
    joined,
    statement,
)

CLIENT, SERVER = Side.CLIENT, Side.SERVER
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
NGINX, APP, DATABASE = 100, 200, 300


def traceparent(span: str = "00f067aa0ba902b7") -> tuple[str, str]:
    return "traceparent", f"00-{TRACE}-{span}-01"


def test_a_request_through_three_processes_is_one_tree() -> None:
    front = exchange(end_of(NGINX, SERVER, 1000), 0, 100, [("X-Request-Id", "0123456789")])
    upstream = Address("10.0.0.3", 8443)
    ends = [
        end_of(pid, role, 2000, server=upstream) for pid, role in ((NGINX, CLIENT), (APP, SERVER))
    ]
    id_and_trace = [("x-request-id", "0123456789"), traceparent()]
    asked = exchange(ends[0], 1, 99, id_and_trace)
    served = exchange(ends[1], 2, 98, id_and_trace)
    text = f"SELECT 1 /*traceparent='00-{TRACE}-aaaaaaaaaaaaaaaa-01'*/"
    ends = [
        end_of(pid, role, 3000, server=Address("10.0.0.4", 5432))
        for pid, role in ((APP, CLIENT), (DATABASE, SERVER))
    ]
    sent, run = statement(ends[0], 10, 90, text), statement(ends[1], 11, 89, text)
    edges, counts, trees = joined([front, asked, served, sent, run])
    assert edges == {
        (id_of(asked), id_of(front), "x-request-id"),
        (id_of(served), id_of(asked), "connection"),
        (id_of(sent), id_of(served), "traceparent"),
        (id_of(run), id_of(sent), "connection"),
    }
    assert trees == [[*map(id_of, (front, asked, served, sent, run))]]
    assert (counts.trees, counts.joined, counts.ends, counts.ambiguous) == (1, 2, 2, 0)
    assert [each.tree and each.tree.depth for each in (front, asked, served, sent, run)] == [
        *(0, 1, 1, 2, 2)
    ]
    assert front.tree is not None
    assert not front.tree.members, "shown exchanges do not keep each other in memory"


def test_an_id_that_two_open_requests_have_proves_nothing() -> None:
    one, two = (
        exchange(end_of(APP, SERVER, port), 0, 100, [("x-request-id", "same-for-all")])
        for port in (1000, 1001)
    )
    asked = exchange(end_of(APP, CLIENT, 2000), 10, 20, [("x-request-id", "same-for-all")])
    edges, counts, _ = joined([one, two, asked])
    assert not edges
    assert counts.ambiguous == 1


def test_a_second_id_decides_between_requests_of_one_trace() -> None:
    one, two = (
        exchange(
            end_of(APP, SERVER, port), 0, 100, [traceparent(), ("x-request-id", f"request-{port}")]
        )
        for port in (1000, 1001)
    )
    headers = [("x-request-id", "request-1001"), traceparent("bbbbbbbbbbbbbbbb")]
    asked = exchange(end_of(APP, CLIENT, 2000), 10, 20, headers)
    assert joined([one, two, asked])[0] == {(id_of(asked), id_of(two), "x-request-id")}


def test_the_same_span_is_more_exact_than_the_same_trace() -> None:
    one, two = (
        exchange(end_of(APP, SERVER, port), 0, 100, [traceparent(span)])
        for port, span in ((1000, "a" * 16), (1001, "b" * 16))
    )
    asked = exchange(end_of(APP, CLIENT, 2000), 10, 20, [traceparent("b" * 16)])
    assert joined([one, two, asked])[0] == {(id_of(asked), id_of(two), "traceparent")}


@pytest.mark.parametrize(("begin_ms", "is_joined"), [(-1, False), (50, True), (101, False)])
def test_a_request_belongs_only_to_one_that_was_open(begin_ms: float, is_joined: bool) -> None:
    served = exchange(end_of(APP, SERVER, 1000), 0, 100, [traceparent()])
    asked = exchange(end_of(APP, CLIENT, 2000), begin_ms, 200, [traceparent()])
    assert bool(joined([served, asked])[0]) is is_joined


def test_an_id_counts_only_inside_of_its_process() -> None:
    served = exchange(end_of(APP, SERVER, 1000), 0, 100, [traceparent()])
    asked = exchange(end_of(NGINX, CLIENT, 2000), 10, 20, [traceparent()])
    assert not joined([served, asked])[0]


def test_a_request_of_which_not_all_was_seen_may_have_the_id() -> None:
    served = exchange(end_of(APP, SERVER, 1000), 0, 100, [traceparent()])
    hidden = exchange(end_of(APP, SERVER, 1001), 0, 100, [(None, None)])
    asked = exchange(end_of(APP, CLIENT, 2000), 10, 20, [traceparent()])
    edges, counts, _ = joined([served, hidden, asked])
    assert not edges
    assert counts.ambiguous == 1


def test_a_process_that_asks_itself() -> None:
    ids = [("x-request-id", "0123456789")]
    outer = exchange(end_of(APP, SERVER, 1000), 0, 100, ids)
    own = Address("10.0.0.1", 9443)
    asked = exchange(end_of(APP, CLIENT, 2000, server=own), 10.2, 90, ids)
    # The write of the client may be noted after the read of the server.
    served = exchange(end_of(APP, SERVER, 2000, server=own), 10.1, 80, ids)
    assert joined([outer, asked, served])[0] == {
        (id_of(asked), id_of(outer), "x-request-id"),
        (id_of(served), id_of(asked), "connection"),
    }


class TestEnds:
    """The two ends of a connection."""

    @pytest.mark.parametrize("count", [2, 5])
    def test_by_number_where_all_was_seen(self, count: int) -> None:
        client, server = end_of(NGINX, CLIENT, 2000), end_of(APP, SERVER, 2000)
        # A client that does not wait for responses: times prove nothing.
        asked = [exchange(client, each, 100 + each, target="/same") for each in range(count)]
        served = [exchange(server, 50, 90 + each, target="/same") for each in range(count)]
        edges = joined([*asked, *served])[0]
        expected = zip(served, asked, strict=True)
        assert edges == {(id_of(one), id_of(two), "connection") for one, two in expected}

    @pytest.mark.parametrize("from_start", [True, False])
    @pytest.mark.parametrize("every_ms", [10, 10_000])
    def test_a_write_that_returned_after_the_answer(self, every_ms: int, from_start: bool) -> None:
        client = end_of(NGINX, CLIENT, 2000, from_start=from_start)
        server = end_of(APP, SERVER, 2000, from_start=from_start)
        times = [every_ms * each for each in range(4)]
        asked = [exchange(client, each + 6, each + 7) for each in times]
        served = [exchange(server, each + 1, each + 3) for each in times]
        edges = joined([*asked, *served])[0]
        expected = zip(served[1:], asked[1:], strict=True)  # nothing was before the first
        assert edges == {(id_of(one), id_of(two), "connection") for one, two in expected}

    def test_what_the_view_of_the_client_lacks(self) -> None:
        client, server = end_of(NGINX, CLIENT, 2000), end_of(APP, SERVER, 2000)
        asked = [exchange(client, 10 * each + 6, 10 * each + 7) for each in range(1, 4)]
        served = [exchange(server, 10 * each + 1, 10 * each + 3) for each in range(4)]
        assert not joined([*asked, *served])[0]

    def test_by_time_where_the_beginning_was_not_seen(self) -> None:
        client = end_of(NGINX, CLIENT, 2000, from_start=False)
        server = end_of(APP, SERVER, 2000, from_start=False)
        # The server's view has one more, and its writes are noted late.
        asked = [exchange(client, 10 * each, 10 * each + 9) for each in range(1, 5)]
        served = [exchange(server, 10 * each + 0.5, 10 * each + 10.1) for each in range(5)]
        edges = joined([*asked, *served])[0]
        expected = zip(served[1:], asked, strict=True)
        assert edges == {(id_of(one), id_of(two), "connection") for one, two in expected}

    def test_by_time_a_client_that_does_not_wait_proves_nothing(self) -> None:
        client = end_of(NGINX, CLIENT, 2000, from_start=False)
        server = end_of(APP, SERVER, 2000, from_start=False)
        asked = [exchange(client, each, 100 + each) for each in range(3)]
        served = [exchange(server, 50 + each, 90 + each) for each in range(3)]
        assert not joined([*asked, *served])[0]

    def test_after_a_loss_numbers_prove_nothing(self) -> None:
        client, server = end_of(NGINX, CLIENT, 2000), end_of(APP, SERVER, 2000)
        server.missing[LossCause.NOT_CAPTURED] = 100
        asked = [exchange(client, 10 * each, 10 * each + 9) for each in range(3)]
        served = [exchange(server, 10 * each + 1, 10 * each + 8) for each in range(1, 3)]
        edges = joined([*asked, *served])[0]
        expected = zip(served, asked[1:], strict=True)
        assert edges == {(id_of(one), id_of(two), "connection") for one, two in expected}

    def test_by_the_stream_of_http2(self) -> None:
        client = end_of(NGINX, CLIENT, 2000, from_start=False)
        server = end_of(APP, SERVER, 2000)
        asked = [exchange(client, each, 100, stream=2 * each + 1) for each in range(3)]
        served = [exchange(server, 5, 90 - each, stream=2 * each + 1) for each in (2, 1, 0)]
        edges = joined([*asked, *served])[0]
        expected = zip(served[::-1], asked, strict=True)
        assert edges == {(id_of(one), id_of(two), "connection") for one, two in expected}

    def test_other_requests_are_not_joined(self) -> None:
        client, server = end_of(NGINX, CLIENT, 2000), end_of(APP, SERVER, 2000)
        asked, served = exchange(client, 0, 10, target="/a"), exchange(server, 1, 9, target="/b")
        assert not joined([asked, served])[0]

    def test_two_connections_with_the_same_addresses(self) -> None:
        clients = [end_of(pid, CLIENT, 2000) for pid in (NGINX, NGINX + 1)]
        server = end_of(APP, SERVER, 2000)
        asked = [exchange(each, 0, 10) for each in clients]
        assert not joined([*asked, exchange(server, 1, 9)])[0]

    def test_loopback_of_another_container_is_another_host(self) -> None:
        local = Address("127.0.0.1", 443)
        for one, two, is_joined in (("a" * 64, "b" * 64, False), ("a" * 64, "a" * 64, True)):
            ends = [
                end_of(
                    pid, role, 2000, server=local, client="127.0.0.1", container=Container(id=id)
                )
                for pid, role, id in ((NGINX, CLIENT, one), (APP, SERVER, two))
            ]
            both = [exchange(ends[0], 0, 10), exchange(ends[1], 1, 9)]
            assert bool(joined(both)[0]) is is_joined

    def test_clocks_of_other_machines_prove_nothing(self) -> None:
        client = end_of(NGINX, CLIENT, 2000, from_start=False)
        server = end_of(APP, SERVER, 2000, from_start=False, machine="other")
        assert not joined([exchange(client, 0, 10), exchange(server, 1, 9)])[0]


class TestWaiting:
    """When trees are shown, and what is remembered."""

    def shown(self) -> tuple[RequestTrees, list[list[Exchange]]]:
        shown: list[list[Exchange]] = []
        return RequestTrees(shown.append), shown

    def test_a_child_waits_for_its_request_but_not_for_ever(self) -> None:
        trees, shown = self.shown()
        served = exchange(end_of(APP, SERVER, 1000), 0, 60_000, [traceparent()])
        asked = exchange(end_of(APP, CLIENT, 2000), 10, 20, [traceparent()])
        trees.begin(served)
        trees.begin(asked)
        trees.end(asked)
        trees.advance(START_NS + 9_000 * MS)
        assert not shown
        trees.advance(START_NS + 11_000 * MS)
        assert shown == [[asked]]
        trees.end(served)
        trees.finish()
        assert shown == [[asked], [served]]
        assert (trees.counts.trees, trees.counts.ends + trees.counts.joined) == (1, 1)
        assert asked.tree is not None
        assert asked.tree.parent == id_of(served)

    def test_trees_come_without_a_tick(self) -> None:
        trees, shown = self.shown()
        trees.begin(exchange(end_of(APP, CLIENT, 2000), 0, 1000))
        for number in range(5):
            trees.end(exchange(end_of(APP, SERVER, 1000), 100 * number, 100 * number + 50))
        assert len(shown) == 3

    def test_where_only_servers_are_watched_nothing_waits(self) -> None:
        trees, shown = self.shown()
        server = end_of(APP, SERVER, 1000)
        for number in range(4):
            trees.end(exchange(server, 50 * number, 50 * number + 10))
        assert len(shown) == 4, "its client would have been seen within the first 100 ms"
        client = exchange(end_of(APP, CLIENT, 2000), 200, 400)
        trees.begin(client)
        trees.end(exchange(server, 210, 220))
        assert len(shown) == 4, "with clients as well, trees wait"

    def test_what_nothing_can_belong_to_is_not_remembered(self) -> None:
        trees, shown = self.shown()
        server = end_of(APP, SERVER, 1000)
        for number in range(1000):
            trees.end(exchange(server, number, number + 0.5))
        trees.finish()
        assert len(shown) == 1000
        assert not trees._shown
        assert not trees._ends._ends[server.id].nodes

    @pytest.mark.parametrize("machine", [None, "other"])
    def test_what_is_older_than_all_that_comes_is_forgotten(self, machine: str | None) -> None:
        trees, _ = self.shown()
        server = end_of(APP, SERVER, 1000, machine=machine)
        for number in range(1000):
            trees.end(exchange(server, 10 * number, 10 * number + 5, [traceparent()]))
        # One second is remembered; of other machines, whose clocks may differ, a minute.
        assert len(trees._shown) < 120 if machine is None else len(trees._shown) > 900

    def test_what_an_open_exchange_may_belong_to_is_remembered(self) -> None:
        served = exchange(end_of(APP, SERVER, 1000), 0, 100, [traceparent()])
        asked = exchange(end_of(APP, CLIENT, 2000), 50, 30_000, [traceparent()])
        other = end_of(NGINX, SERVER, 3000)
        between = [exchange(other, 10 * each, 10 * each + 5) for each in range(1000)]
        edges = joined([served, asked, *between])[0]
        assert edges == {(id_of(asked), id_of(served), "traceparent")}

    def test_at_most_so_many_wait(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(request_trees, "MOST_WAITING", 3)
        trees, shown = self.shown()
        for number in range(10):
            trees.end(exchange(end_of(APP, SERVER, 1000), number, number))
        assert len(shown) == 7
        trees.finish()
        assert len(shown) == 10

    def test_at_most_so_many_bytes_wait(self) -> None:
        trees, shown = self.shown()
        for number in range(10):
            large = statement(end_of(APP, CLIENT, 1000), number, number, "x" * (10 << 20))
            trees.end(large)
        assert len(shown) == 7

    def test_what_was_forgotten_may_fit_as_well(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(request_trees, "MOST_REMEMBERED", 1)
        trees, _ = self.shown()
        ids = [traceparent()]
        forgotten, served = (exchange(end_of(APP, SERVER, port), 0, 100, ids) for port in (1, 2))
        asked = exchange(end_of(APP, CLIENT, 2000), 50, 5000, ids)
        for each in (forgotten, served, asked):
            trees.begin(each)
        for each in (forgotten, served):
            trees.end(each)
        trees.advance(START_NS + 1000 * MS)
        trees.end(asked)
        trees.finish()
        assert trees.counts.too_old == 1
        assert asked.tree is not None
        assert asked.tree.parent is None

    def test_nothing_is_left_of_connections_that_ended(self) -> None:
        trees, _ = self.shown()
        for number in range(100):
            for end in (end_of(APP, CLIENT, number), end_of(NGINX, SERVER, number)):
                trees.end(exchange(end, number, number + 1, [traceparent()]))
                trees.close(end, START_NS)
        trees.finish()
        trees.advance(START_NS + 120_000 * MS)
        kept = [trees._ends._ends, trees._ends._clients, trees._served._by_id, trees._shown]
        assert not any(kept)


class TestGoroutines:
    """What the goroutine that serves a request asks for it."""

    READS_MS, ASKS_MS, ANSWERS_MS = 0, 10, 50

    def edges(self, notes: dict[int, int], *, requests: int = 1) -> set[Edge]:
        """Return the edges of requests and one that their process makes, by its goroutines."""
        tasks = TaskNotes()
        for at_ms, goroutine in notes.items():
            data = Data(START_NS + round(at_ms * MS), 1, 1, Direction.READ, 0, 1, b"x")
            tasks.note(data._replace(task=goroutine), APP)
        served = [
            exchange(end_of(APP, SERVER, port), self.READS_MS, self.ANSWERS_MS)
            for port in range(requests)
        ]
        asked = exchange(end_of(APP, CLIENT, 2000), self.ASKS_MS, 20)
        edges, _, _ = joined([*served, asked], tasks)
        assert {(one, other) for one, other, _ in edges} <= {(id_of(asked), id_of(served[0]))}
        return edges

    def test_it_reads_asks_and_answers(self) -> None:
        [(_, _, evidence)] = self.edges({self.READS_MS: 7, self.ASKS_MS: 7, self.ANSWERS_MS: 7})
        assert evidence == "goroutine"

    @pytest.mark.parametrize("other", [READS_MS, ASKS_MS, ANSWERS_MS])
    def test_another_one_did_one_of_these(self, other: int) -> None:
        notes = dict.fromkeys((self.READS_MS, self.ASKS_MS, self.ANSWERS_MS), 7)
        assert not self.edges(notes | {other: 8})

    @pytest.mark.parametrize("number", [0, 2, 4, 0x1002])
    def test_what_is_no_number_of_a_goroutine(self, number: int) -> None:
        notes = dict.fromkeys((self.READS_MS, self.ASKS_MS, self.ANSWERS_MS), number)
        assert not self.edges(notes)

    def test_it_read_two_requests(self) -> None:
        notes = dict.fromkeys((self.READS_MS, self.ASKS_MS, self.ANSWERS_MS), 7)
        assert not self.edges(notes, requests=2)

    def test_two_at_the_same_time(self) -> None:
        tasks = TaskNotes()
        data = Data(START_NS, 1, 1, Direction.READ, 0, 1, b"x", task=7)
        for each in (data, data, data._replace(task=8)):
            tasks.note(each, APP)
        assert tasks.task_at(APP, START_NS).number == 0


def test_numbers_that_do_not_fit_the_times_prove_nothing() -> None:
    client, server = end_of(NGINX, CLIENT, 2000), end_of(APP, SERVER, 2000)
    asked = [exchange(client, 10 * each, 10 * each + 9) for each in range(3)]
    # What the server's view lacks was lost without a word.
    served = [exchange(server, 10 * each + 1, 10 * each + 8) for each in range(1, 3)]
    assert not joined([*asked, *served])[0]


def test_one_goroutine_with_many_requests() -> None:
    tasks = TaskNotes()
    served = [exchange(end_of(APP, SERVER, 1), 2 * each, 2 * each + 1) for each in range(500)]
    for each in served:
        for time_ns in (each.started_ns, each.first_byte_ns or 0):
            tasks.note(Data(time_ns, 1, 1, Direction.READ, 0, 1, b"x", task=7), APP)
    asked = exchange(end_of(APP, CLIENT, 2000), 500.5, 500.7)
    tasks.note(Data(asked.started_ns, 1, 1, Direction.WRITE, 0, 1, b"x", task=7), APP)
    edges, _, _ = joined([*served, asked], tasks)
    assert edges == {(id_of(asked), id_of(served[250]), "goroutine")}


class TestThreads:
    """What a thread asks that waits for the requests of one connection."""

    BLOCKED, NEVER = 3, 5

    def edges(self, *events: tuple[float, int, Direction, int, int]) -> set[Edge]:
        """Return the edges of one request, 1 to 50 ms, and one that its process makes at 10.

        ``events``: the time, connection, direction, thread, and how the read waited.
        """
        tasks = TaskNotes()
        for at_ms, connection, direction, thread, waits in events:
            data = Data(START_NS + round(at_ms * MS), thread, connection, direction, 0, 1, b"x")
            tasks.note(data._replace(task=waits << 56), APP)
        served = exchange(end_of(APP, SERVER, 1), 1, 50)
        asked = exchange(end_of(APP, CLIENT, 2000), 10, 20)
        edges, _, _ = joined([served, asked], tasks)
        assert {(one, other) for one, other, _ in edges} <= {(id_of(asked), id_of(served))}
        return edges

    READ, WRITE = Direction.READ, Direction.WRITE
    ASKS, ANSWERS = (10, 2, WRITE, 7, 0), (50, 1, WRITE, 7, 0)

    def test_it_waits_asks_and_answers(self) -> None:
        [(_, _, evidence)] = self.edges((1, 1, self.READ, 7, self.BLOCKED), self.ASKS, self.ANSWERS)
        assert evidence == "thread"

    def test_it_waited_there_before(self) -> None:
        waited = 0, 1, self.READ, 7, self.BLOCKED
        assert self.edges(waited, (1, 1, self.READ, 7, 1), self.ASKS, self.ANSWERS)

    @pytest.mark.parametrize(
        "before",
        [
            (0, 1, READ, 7, NEVER),  # its socket does not block
            (0, 9, READ, 7, BLOCKED),  # it waited for another connection
            (0, 1, READ, 8, BLOCKED),  # another thread waited for this one
            (0, 1, WRITE, 7, 0),
        ],
    )
    @pytest.mark.parametrize("waits", [0, 1])
    def test_it_did_not_wait(
        self, before: tuple[float, int, Direction, int, int], waits: int
    ) -> None:
        assert not self.edges(before, (1, 1, self.READ, 7, waits), self.ASKS, self.ANSWERS)

    def test_its_socket_no_longer_blocks(self) -> None:
        waited = 0, 1, self.READ, 7, self.BLOCKED
        assert not self.edges(waited, (1, 1, self.READ, 7, self.NEVER), self.ASKS, self.ANSWERS)

    @pytest.mark.parametrize("other", [ASKS, ANSWERS])
    def test_another_thread_did_one_of_these(
        self, other: tuple[float, int, Direction, int, int]
    ) -> None:
        events = [(*each[:3], 8 if each == other else 7, 0) for each in (self.ASKS, self.ANSWERS)]
        assert not self.edges((1, 1, self.READ, 7, self.BLOCKED), *events)

    def test_it_read_another_request(self) -> None:
        tasks = TaskNotes()
        for at_ms, connection, direction, waits in (
            (1, 1, self.READ, self.BLOCKED),
            (2, 9, self.READ, 1),  # of which it is not known that the thread waited for it
            (10, 2, self.WRITE, 0),
            (50, 1, self.WRITE, 0),
        ):
            data = Data(START_NS + at_ms * MS, 7, connection, direction, 0, 1, b"x")
            tasks.note(data._replace(task=waits << 56), APP)
        served, other = (exchange(end_of(APP, SERVER, port), port, 50) for port in (1, 2))
        asked = exchange(end_of(APP, CLIENT, 2000), 10, 20)
        assert not joined([served, other, asked], tasks)[0]
