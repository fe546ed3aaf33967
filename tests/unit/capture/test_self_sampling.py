"""When connections are left out by ``--sample auto``, and which."""

from sslsniff.capture.sampling.self_sampling import ALL, SelfSampling, sampling_hash

ROOM_BYTES = 1000


class Chosen:
    """What was chosen and noted."""

    def __init__(self) -> None:
        self.most: list[int] = []
        self.notes: list[str] = []
        self.sampling = SelfSampling(ROOM_BYTES, self.most.append, self.notes.append)

    def update(self, waiting_bytes: int, connections: list[int], now_s: float) -> list[int]:
        """Return which of the connections are still captured."""
        self.sampling.update(waiting_bytes, connections, now_s)
        most = self.most[-1] if self.most else ALL
        return [each for each in connections if sampling_hash(each) <= most]


def test_hash() -> None:
    # The values of MurmurHash3's 64-bit finalizer for 0 and 1, of which the lower half is taken.
    assert sampling_hash(0) == 0
    assert sampling_hash(1) == 0xB456BCFC34C2CB2C & ALL


def test_more_are_left_out_until_one_is_left() -> None:
    chosen = Chosen()
    kept, counts = [*range(1, 101)], []
    for step in range(12):
        kept = chosen.update(800 + step, kept, step)
        counts.append(len(kept))
    assert counts == [50, 25, 13, 7, 4, 2, 1, 1, 1, 1, 1, 1]
    told = "more traffic than can be decoded: from now on 50 of 100 connections are shown, and "
    assert chosen.notes[0].startswith(told)
    assert len(chosen.notes) == 7


def test_less_full_leaves_out_a_quarter() -> None:
    assert len(Chosen().update(376, [*range(1, 101)], 0)) == 75
    assert len(Chosen().update(375, [*range(1, 101)], 0)) == 100


def test_it_waits_until_the_effect_shows() -> None:
    chosen = Chosen()
    chosen.update(800, [*range(100)], 1.0)
    chosen.update(900, [*range(100)], 1.05)
    chosen.update(800, [*range(100)], 2.0)  # not more than before
    assert len(chosen.most) == 1
    chosen.update(810, [*range(100)], 3.0)
    assert len(chosen.most) == 2


def test_connections_that_end_at_once_are_left_out_too() -> None:
    chosen = Chosen()
    chosen.update(800, [], 1.0)
    assert chosen.most == [ALL // 2]


def test_all_are_shown_again_when_it_is_calm() -> None:
    chosen = Chosen()
    chosen.update(800, [], 0)
    chosen.update(900, [], 1)
    for now_s in range(2, 30):
        chosen.update(10, [], now_s)
    assert chosen.most == [ALL // 2, ALL // 4, ALL // 4 * 2 + 1, ALL]
    assert chosen.notes[-1] == "less traffic: 100 % of new connections are shown from now on"
    chosen.update(10, [], 60)
    assert len(chosen.most) == 4


def test_it_is_not_calm_while_much_waits() -> None:
    chosen = Chosen()
    chosen.update(800, [], 0)
    for now_s in range(1, 60, 5):
        chosen.update(100, [], now_s)
    assert len(chosen.most) == 1
