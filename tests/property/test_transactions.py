"""What holds for the times of transactions, whatever a session does, and whatever is lost."""

from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.decoders.databases.database_wires import (
    PG_EXECUTE,
    PG_LOGIN,
    PG_SYNC,
    pg,
    pg_bind,
    pg_error,
    pg_parse,
    pg_tag,
)
from tests.unit.decoders.databases.postgresql_wires import query
from tests.unit.decoders.databases.test_transactions import Timed, Times, login, timed
from tests.unit.decoders.wires import C, S, Step

pytestmark = pytest.mark.tools

TAKES_S = 0.5
TAGS = {"BEGIN": "BEGIN", "COMMIT": "COMMIT", "ROLLBACK": "ROLLBACK", "UPDATE a": "UPDATE 1"}
ENDS = ("COMMIT", "ROLLBACK")


class Asked(NamedTuple):
    """What a client does after so many seconds."""

    text: str
    after_s: float
    is_extended: bool
    fails: bool


ASKED = st.builds(
    Asked,
    st.sampled_from([*TAGS, "ROLLBACK TO a", "prepare"]),
    st.integers(0, 8).map(lambda quarters: quarters / 4),
    st.booleans(),
    st.booleans(),
)


class Session:
    """A server: what passes, and what is to be shown of it."""

    def __init__(self) -> None:
        self.wire: Timed = []
        self.shown: list[Times] = []
        self._now_s = 0.0
        self._began_s: float | None = None  # of the transaction
        self._is_failed = False
        self._idle_s = self._idle_before_s = 0.0

    def ask(self, asked: Asked) -> None:
        if self._began_s is not None:
            self._idle_s += asked.after_s
            self._idle_before_s += asked.after_s
        if asked.text == "prepare":
            self._pass(asked.after_s, pg_parse(b"UPDATE a", name=b"s") + PG_SYNC, pg("1"))
            return
        text, began_s = asked.text, self._began_s
        fails = asked.fails and text == "UPDATE a"
        is_end = text in ENDS
        was_failed, self._is_failed = self._is_failed, self._is_failed and not is_end
        idle_s = self._idle_before_s or None
        self._idle_before_s = 0
        ended = Times(text, idle_s)
        if fails or (was_failed and text == "UPDATE a"):
            answer = pg_error("22012", "division by zero")
            self._is_failed = began_s is not None
        else:
            tag = TAGS.get(text, "ROLLBACK")
            answer = pg_tag("ROLLBACK" if was_failed and is_end else tag)
        sent_s = self._now_s + asked.after_s
        if text == "BEGIN" and began_s is None:
            self._began_s = sent_s
        if is_end and began_s is not None:
            self._began_s = None
            whole_s = sent_s + TAKES_S - began_s
            ended = Times(text, idle_s, whole_s, self._idle_s)
            self._idle_s = 0
        self.shown.append(ended)
        raw = text.encode()
        request = query(raw)[1]
        if asked.is_extended:
            request = pg_parse(raw) + pg_bind() + PG_EXECUTE + PG_SYNC
            answer = pg("1") + pg("2") + answer
        assert isinstance(request, bytes)
        self._pass(asked.after_s, request, answer)

    def _pass(self, after_s: float, request: bytes, answer: bytes) -> None:
        state = b"I" if self._began_s is None else b"E" if self._is_failed else b"T"
        self.wire += [(after_s, (C, request)), (TAKES_S, (S, answer + pg("Z", state)))]
        self._now_s += after_s + TAKES_S


def session(all_asked: list[Asked]) -> Session:
    made = Session()
    for asked in all_asked:
        made.ask(asked)
    return made


@settings(deadline=None, max_examples=150)
@given(st.lists(ASKED, max_size=12), st.integers(1, 60))
def test_times_are_those_of_the_session(all_asked: list[Asked], size: int) -> None:
    made = session(all_asked)
    assert timed([*login(PG_LOGIN), *made.wire], size) == made.shown


@settings(deadline=None, max_examples=150)
@given(st.lists(ASKED, min_size=1, max_size=12), st.data())
def test_nothing_is_said_of_what_a_loss_hides(all_asked: list[Asked], data: st.DataObject) -> None:
    """After a loss a time may be missing, but none is too long, and none is of another end."""
    made = session([*all_asked, Asked("UPDATE a", 1, is_extended=False, fails=False)])
    at = data.draw(st.integers(0, len(made.wire) - 1))
    after_s, (side, step) = made.wire[at]
    assert isinstance(step, bytes)
    lost: Step = (side, len(step))
    wire = [*made.wire[:at], (after_s, lost), *made.wire[at + 1 :]]
    for found in timed([*login(PG_LOGIN), *wire], 1 << 30):
        alike = [each for each in made.shown if each.text == found.text]
        assert found.idle is None or max(each.idle or 0 for each in alike) >= found.idle
        if found.transaction is not None:
            wanted = (found.transaction, found.idle_of_it)
            assert wanted in [(each.transaction, each.idle_of_it) for each in alike]
