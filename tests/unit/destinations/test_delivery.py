"""Items are delivered, or counted as dropped; who adds them never waits unless it can."""

import threading
import time

import pytest

from sslsniff.destinations.delivery import Delivery

PATIENCE_S = 10


class Receiver:
    """Takes batches unless it ``is_down``, or ``hangs`` until ``abort``."""

    def __init__(self) -> None:
        self.taken: list[list[int]] = []
        self.is_down = False
        self.hangs = False
        self._aborted = threading.Event()

    def send(self, batch: list[int]) -> str | None:
        if self.hangs:
            self._aborted.wait(PATIENCE_S)
            return "aborted"
        if self.is_down:
            return "connection refused"
        self.taken.append(batch)
        return None

    def abort(self) -> None:
        self._aborted.set()

    @property
    def items(self) -> list[int]:
        return [item for batch in self.taken for item in batch]


def delivery(
    receiver: Receiver,
    said: list[str],
    *,
    can_wait: bool = False,
    most_waiting: int = 1000,
    give_up_s: float = 60,
) -> Delivery[int]:
    return Delivery(
        "items to r",
        receiver.send,
        said.append,
        can_wait=can_wait,
        most_waiting=most_waiting,
        most_at_once=10,
        give_up_s=give_up_s,
    )


def wait_for(items: Delivery[int], delivered: int) -> None:
    until_s = time.monotonic() + PATIENCE_S
    while items.delivered < delivered:
        assert time.monotonic() < until_s
        time.sleep(0.01)


def test_all_are_delivered_in_order_and_in_batches() -> None:
    receiver, said = Receiver(), list[str]()
    items = delivery(receiver, said)
    for number in range(95):
        items.add(number)
    items.close(PATIENCE_S, receiver.abort)
    assert receiver.items == [*range(95)]
    assert max(map(len, receiver.taken)) == 10
    assert said == ["items to r: 95 delivered, 0 dropped"]


@pytest.mark.heavy
def test_one_item_is_not_kept_for_long() -> None:
    receiver = Receiver()
    items = delivery(receiver, [])
    items.add(1)
    wait_for(items, 1)
    items.close(PATIENCE_S, receiver.abort)


@pytest.mark.heavy
def test_an_outage_is_bridged() -> None:
    receiver, said = Receiver(), list[str]()
    receiver.is_down = True
    items = delivery(receiver, said)
    for number in range(95):
        items.add(number)
    time.sleep(0.7)
    receiver.is_down = False
    wait_for(items, 95)
    items.close(PATIENCE_S, receiver.abort)
    assert receiver.items == [*range(95)]
    assert said == [
        "items to r: cannot deliver: connection refused; trying again",
        "items to r: delivered again; 0 dropped so far",
        "items to r: 95 delivered, 0 dropped",
    ]


@pytest.mark.slow
def test_what_has_no_room_is_dropped_and_counted() -> None:
    receiver, said = Receiver(), list[str]()
    receiver.is_down = True
    items = delivery(receiver, said, most_waiting=30)
    for number in range(100_000):  # none of them waits for the receiver, which would be for good
        items.add(number)
    receiver.is_down = False
    wait_for(items, 30)
    items.close(PATIENCE_S, receiver.abort)
    assert receiver.items[:30] == [*range(30)]
    assert len(receiver.items) in {30, 40}  # a batch was under way
    assert said[-1] == (
        f"items to r: {len(receiver.items)} delivered, {100_000 - len(receiver.items):,} dropped"
    )


@pytest.mark.heavy
def test_a_batch_that_is_never_taken_is_given_up() -> None:
    receiver, said = Receiver(), list[str]()
    receiver.is_down = True
    items = delivery(receiver, said, give_up_s=0)
    items.add(1)
    until_s = time.monotonic() + PATIENCE_S
    while not items.dropped:
        assert time.monotonic() < until_s
        time.sleep(0.01)
    receiver.is_down = False
    items.add(2)
    wait_for(items, 1)
    items.close(PATIENCE_S, receiver.abort)
    assert receiver.items == [2]
    assert said[-1] == "items to r: 1 delivered, 1 dropped"


@pytest.mark.slow
def test_the_end_does_not_wait_for_a_receiver_that_hangs() -> None:
    receiver, said = Receiver(), list[str]()
    receiver.hangs = True
    items = delivery(receiver, said)
    for number in range(25):
        items.add(number)
    items.close(0.5, receiver.abort)  # without a limit it would not return
    assert said[-1] == "items to r: 0 delivered, 25 dropped"


@pytest.mark.heavy
def test_a_source_that_can_wait_loses_nothing() -> None:
    receiver, said = Receiver(), list[str]()
    receiver.is_down = True
    items = delivery(receiver, said, can_wait=True, most_waiting=30)
    threading.Timer(0.5, lambda: setattr(receiver, "is_down", False)).start()
    for number in range(500):
        items.add(number)
    items.close(0.1, receiver.abort)
    assert receiver.items == [*range(500)]
    assert said[-1] == "items to r: 500 delivered, 0 dropped"


@pytest.mark.slow
def test_an_exception_does_not_end_the_delivery() -> None:
    said: list[str] = []
    attempts: list[list[int]] = []

    def send(batch: list[int]) -> None:
        attempts.append(batch)
        if len(attempts) == 1:
            raise ValueError("no such thing\nin detail")

    items: Delivery[int] = Delivery(
        "items to r", send, said.append, can_wait=True, most_waiting=5, most_at_once=5, give_up_s=9
    )
    items.add(1)
    items.close(PATIENCE_S, lambda: None)
    assert attempts == [[1], [1]]
    assert said[0] == "items to r: cannot deliver: ValueError: no such thing; trying again"
    assert said[-1] == "items to r: 1 delivered, 0 dropped"
