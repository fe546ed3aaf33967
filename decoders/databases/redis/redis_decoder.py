"""Decodes the protocol of Redis: RESP 2 and 3 (redis.io, "Redis serialization protocol")."""

import re
from collections.abc import Callable
from functools import partial

from sslsniff.decoders.databases.database_decoder import DatabaseDecoder, OpenStatement
from sslsniff.decoders.databases.redis.passwords import LOG_INS, logged_in_user, without_passwords
from sslsniff.decoders.databases.redis.resp_units import (
    AGGREGATES,
    BULKS,
    KINDS,
    PAIRS,
    Snapshot,
    measure,
    measure_client,
    number,
)
from sslsniff.decoders.databases.redis.subscriptions import (
    ANSWERED_BY_NAME,
    SUBSCRIBES,
    UNSUBSCRIBES,
    Subscriptions,
)
from sslsniff.decoders.databases.redis.transaction import Transaction
from sslsniff.decoders.databases.statement import (
    MOST_TEXT_BYTES,
    PARAMETER_CHARACTERS,
    Statement,
    shown_value,
)
from sslsniff.decoders.databases.units import NotAUnitError, Unit, UnitSplitter
from sslsniff.decoders.messages import Side

_LINE_END = b"\r\n"
_MOST_WORDS = 1 << 20  # of a command, as Redis allows
_SHOWN_WORDS = 1000
_CUT_BYTES = PARAMETER_CHARACTERS // 2 - 1
"""A command of fewer bytes is shown whole, as each byte takes two characters at most."""
_COMMAND = re.compile(rb"\*[1-9][0-9]{0,6}\r\n\$[1-9][0-9]?\r\n[A-Za-z]")
_MONITORED = re.compile(rb"[0-9]+\.[0-9]+ \[")
_REPLIES_TO_ALL = -1  # one for each channel that the connection subscribes to
_MOST_UNCONFIRMED = 16
"""So many commands without replies wait to see whether the server refuses to be silent."""
_UNANSWERED_SETTINGS = frozenset(("ACK", "GETACK"))


class RedisDecoder(DatabaseDecoder):
    """See ``DatabaseDecoder``. Each command is a statement, and each message that is pushed.

    Commands get no reply after CLIENT REPLY OFF, nor one after CLIENT REPLY SKIP. That the server
    obeyed shows in the next reply; until then such commands wait.
    """

    protocol = "redis"

    def __init__(self) -> None:
        self._words: list[bytes] = []
        self._words_left = 0
        self._sizes = 0
        self._replies: dict[int, int] = {}
        """How many replies a command gets, by its stream, where it is not one."""
        self._unanswered = 0  # open commands that get none
        self._is_silent = self._skips_next = self._is_silence_confirmed = False
        self._transaction = Transaction()
        self._elements_left = 0
        self._pushed: list[str] | None = None
        self._pushed_rows: int | None = None  # of RESP 2
        self._subscriptions = Subscriptions()
        self._monitors = False
        self._replicates = False  # the master sends commands
        self._snapshot: Snapshot | None = None
        super().__init__()

    def new_reader(self, side: Side) -> UnitSplitter:
        """See ``DatabaseDecoder``."""
        return UnitSplitter(measure_client if side is Side.CLIENT else self._measure_server)

    def begins(self, side: Side, data: bytes) -> bool:
        """See ``DatabaseDecoder``: the first command of a connection looks like any other."""
        return False

    def find(self, side: Side, data: bytes) -> int:
        """See ``DatabaseDecoder``."""
        if side is Side.CLIENT or self._replicates:
            found = _COMMAND.search(data)
            return found.start() if found else -1
        line, end, _ = data[1:64].partition(b"\r\n")
        is_number = line.lstrip(b"-").isdigit() or not end
        return 0 if data[0] in KINDS and (data[:1] in {b"+", b"-"} or is_number) else -1

    def forget(self) -> None:
        """See ``DatabaseDecoder``."""
        self._words, self._words_left, self._sizes = [], 0, 0
        self._skips_next = False
        self._transaction.clear()
        self._elements_left, self._pushed = 0, None
        self._snapshot = None

    @property
    def stored_bytes(self) -> int:
        """See ``DatabaseDecoder``."""
        waiting = 100 * len(self._replies) + self._transaction.held_bytes
        return self._sizes + 50 * len(self._words) + waiting

    def unit(self, side: Side, unit: Unit) -> None:
        """See ``DatabaseDecoder``."""
        if side is Side.CLIENT:
            self._sent(unit)
        elif self._snapshot is not None:
            self._snapshot.unit(unit)
            if self._snapshot.is_over:
                self._snapshot = None
        else:
            self._received(unit)

    def end_all(self, error: str) -> None:
        """See ``DatabaseDecoder``: what gets no reply succeeded."""
        self._end_unanswered(0)
        super().end_all(error)
        self._replies.clear()
        self._unanswered = 0

    # What the client sends.

    def _sent(self, unit: Unit) -> None:
        kind, line = unit.header[:1], unit.header[1:-2]
        if not self._words_left:
            if kind == b"*":
                self._words_left = number(line)
                if self._words_left > _MOST_WORDS:
                    raise NotAUnitError
            elif line or kind.strip():  # typed by hand
                words = unit.header.split()
                self._command(words, sum(map(len, words)))
            return
        if kind != b"$":
            raise NotAUnitError
        if len(self._words) < _SHOWN_WORDS and self._sizes < MOST_TEXT_BYTES:
            self._words.append(unit.data[: max(0, unit.size - 2)])
        self._sizes += unit.size
        self._words_left -= 1
        if not self._words_left:
            words, size = self._words, self._sizes
            self._words, self._sizes = [], 0
            self._command(words, size - len(_LINE_END) * len(words))

    def _command(self, raw: list[bytes], size: int) -> None:
        sent = [*map(shown_value, raw)]
        words = without_passwords(sent)
        if not words:
            return
        name = words[0].upper()
        text = " ".join([name, *words[1:]])
        whole = len(text)
        if size >= _CUT_BYTES or len(raw) >= _SHOWN_WORDS:
            # Of what is not shown: the words that are left out, and a byte if one is cut.
            hidden = size - sum(map(len, raw)) + (max(map(len, sent)) > PARAMETER_CHARACTERS)
            whole = len(text.encode()) + hidden
        statement = Statement("redis", name, text[:MOST_TEXT_BYTES], whole)
        opened = self.begin(statement, self._change(name, sent))
        count = self._count_replies(name, words)
        if count != 1:
            self._replies[opened.stream] = count
        self._unanswered += not count
        is_certain = self._replicates or self._is_silence_confirmed or name == "REPLCONF"
        self._end_unanswered(0 if is_certain else _MOST_UNCONFIRMED)

    def _count_replies(self, name: str, words: list[str]) -> int:
        mode = reply_mode(name, words)
        is_skipped = self._obey(mode)
        if name == "RESET":
            self._is_silent = False
        channels = len(words) - 1
        if mode == "ON" or (name in SUBSCRIBES | UNSUBSCRIBES and channels):
            return channels if not mode else 1  # CLIENT REPLY OFF does not silence these
        if is_skipped or self._is_silent or mode == "SKIP" or self._replicates:
            return 0
        if name == "REPLCONF" and _UNANSWERED_SETTINGS & {each.upper() for each in words[1::2]}:
            return 0
        return _REPLIES_TO_ALL if name in UNSUBSCRIBES else 1

    def _obey(self, mode: str) -> bool:
        """Note that a client asks for silence, or ends it; return whether a SKIP came before."""
        is_skipped, self._skips_next = self._skips_next, mode == "SKIP" and not self._is_silent
        if mode in {"ON", "OFF"}:
            self._is_silent = mode == "OFF"
        return is_skipped

    def _change(self, name: str, words: list[str]) -> Callable[[], None] | None:
        """Return what the success of a command changes."""
        if name == "SELECT" and len(words) == 2:
            return partial(setattr, self, "database", words[1])
        if name in LOG_INS and (user := logged_in_user(name, words)):
            return partial(setattr, self, "user", user)
        if mode := reply_mode(name, words):
            return partial(setattr, self, "_is_silence_confirmed", mode == "OFF")
        changes: dict[str, Callable[[], None]] = {
            "MULTI": self._transaction.clear,
            "DISCARD": self._transaction.clear,
            "EXEC": self._transaction.execute,
            "MONITOR": partial(setattr, self, "_monitors", True),
            "RESET": self._reset,
        }
        return changes.get(name)

    def _reset(self) -> None:
        self.database = self.user = None
        self._monitors = self._is_silence_confirmed = False
        self._subscriptions.clear()
        self._transaction.clear()

    # Commands without replies.

    def _is_unanswered(self, opened: OpenStatement) -> bool:
        return not self._replies.get(opened.stream, 1)

    def _is_first(self, operation: str) -> bool:
        return bool(self.open) and self.open[0].statement.operation == operation

    def _end_first(self) -> None:
        if not self._replies.pop(self.open[0].stream, 1):
            self._unanswered -= 1
        self.end_oldest()

    def _end_unanswered(self, most: int) -> None:
        """End the oldest commands that get no reply, until at most ``most`` are open."""
        while self._unanswered > most and self.open and self._is_unanswered(self.open[0]):
            self._end_first()

    def _is_refused(self, kind: bytes, line: bytes) -> bool:
        """Return whether a reply is that to the oldest command, which should have got none."""
        silent = []
        for opened in self.open:
            if not self._is_unanswered(opened):
                break
            silent.append(opened.statement)
        else:  # there is no other to which it could be
            return True
        if (
            silent[0].text or ""
        ).upper() == "CLIENT REPLY OFF":  # the next reply is that of CLIENT REPLY ON
            return kind in b"-!" or line == b"QUEUED"
        if line == b"QUEUED":
            return all(each.operation != "MULTI" for each in silent)
        return kind in b"-!" and (line.startswith(b"NOAUTH") or b"'client" in line.lower())

    def _speak(self) -> None:
        """Note that the server is not silent."""
        self._is_silent = self._skips_next = self._is_silence_confirmed = False
        self._replies = {stream: count or 1 for stream, count in self._replies.items()}
        self._unanswered = 0

    # What the server sends.

    def _measure_server(self, data: bytes, at: int) -> tuple[int, int] | None:
        if self._snapshot is None and self.open and not self._elements_left:
            operation, first = self.open[0].statement.operation, data[at : at + 1]
            if operation == "SYNC" and first in {b"$", b"\n"}:
                self.answered()
                self._end_first()
                self._replicate(Snapshot())
            elif operation == "PSYNC" and first == b"\n":  # the master is alive, and not ready yet
                return 1, 0
        return (self._snapshot.measure if self._snapshot else measure)(data, at)

    def _replicate(self, snapshot: Snapshot | None) -> None:
        self._replicates, self._snapshot = True, snapshot

    def _received(self, unit: Unit) -> None:
        kind, line = unit.header[:1], unit.header[1:-2]
        if unit.header == b"\n":
            return
        is_aggregate = kind in AGGREGATES
        count = max(0, number(line)) if is_aggregate else 0
        if self._elements_left:
            self._transaction.note_element(self._elements_left, failed=kind in b"-!")
        else:
            self._begin_reply(kind, line, unit)
            self._elements_left = 1
            if kind == b"*" and self._pushed is None and self._is_first("EXEC"):
                count = self._transaction.begin_elements(count)
        if self._pushed is not None and not is_aggregate and len(self._pushed) < _SHOWN_WORDS:
            self._pushed.append(
                shown_value(unit.data[:-2] if kind in BULKS else line) if line != b"-1" else ""
            )
        self._elements_left += count * (2 if kind in PAIRS else 1)
        if kind != b"|":  # attributes come before an element, and are none
            self._elements_left -= 1
        if not self._elements_left:
            self._end_reply()

    def _begin_reply(self, kind: bytes, line: bytes, unit: Unit) -> None:
        self._pushed, self._pushed_rows = None, None
        if kind == b">" or self._may_be_unasked(kind, line):
            self._pushed = []
            self._pushed_rows = max(0, number(line)) if kind == b"*" else None
            return
        self._settle(kind, line)
        if not self.open:
            self._pushed = []
            return
        statement = self.answered()
        assert statement is not None
        opened = self.open[0]
        if kind in b"+-!":  # instead of an answer for each channel
            elements = self._replies.pop(opened.stream, 1)
        if kind in b"-!":
            said = shown_value(line if kind == b"-" else unit.data[:-2])
            code, _, text = said.partition(" ")
            statement.code, statement.error = code, text or code
        elif line == b"QUEUED":
            self._queue(opened, max(1, elements))
        elif kind == b"+" and statement.operation == "PSYNC":
            self._replicate(Snapshot() if line.startswith(b"FULLRESYNC") else None)
        elif kind in AGGREGATES and kind != b"|" and line != b"-1":
            statement.rows = (statement.rows or 0) + max(0, number(line))

    def _settle(self, kind: bytes, line: bytes) -> None:
        """Decide, by a reply, whether the server obeyed a CLIENT REPLY OFF or SKIP."""
        if not self.open:
            if self._is_silent:
                self._speak()
        elif self._is_unanswered(self.open[0]):
            if self._is_refused(kind, line):
                self._speak()
            else:
                self._end_unanswered(0)

    def _queue(self, opened: OpenStatement, elements: int) -> None:
        text = opened.statement.text or ""
        mode = reply_mode(opened.statement.operation or "", text.split())
        change = partial(self._obey, mode) if mode else opened.on_success
        self._transaction.queue(change, 1 if mode == "ON" else 0 if mode else elements)
        opened.on_success = None

    def _asked(self) -> OpenStatement | None:
        """Return the oldest command that gets a reply."""
        return next((each for each in self.open if not self._is_unanswered(each)), None)

    def _may_be_unasked(self, kind: bytes, line: bytes) -> bool:
        """Return whether something that looks like a reply may answer no command."""
        if self._replicates:
            return True
        if kind == b"+":
            return self._monitors and _MONITORED.match(line) is not None
        asked = self._asked() if kind == b"*" else None
        return asked is not None and asked.statement.operation in ANSWERED_BY_NAME

    def _end_reply(self) -> None:
        pushed, self._pushed = self._pushed, None
        if pushed is not None and not self._confirms(pushed):
            shown = without_passwords(pushed) if self._replicates else pushed
            text = " ".join(shown)
            statement = Statement("redis", "PUSH", text[:MOST_TEXT_BYTES], len(text.encode()))
            self.report(statement)
            return
        if pushed is not None:
            self._subscribed(pushed)
        if not self.open:
            return
        opened = self.open[0]
        left = self._replies.get(opened.stream, 1) - 1
        if left > 0:
            self._replies[opened.stream] = left
            return
        self.answered()
        self._end_first()

    def _confirms(self, pushed: list[str]) -> bool:
        """Return whether what was pushed answers the oldest command, which subscribes."""
        asked = self._asked()
        if asked is None or not pushed or self._replicates:
            return False
        return ANSWERED_BY_NAME.get(asked.statement.operation or "") == pushed[0].upper()

    def _subscribed(self, words: list[str]) -> None:
        self._end_unanswered(0)
        statement = self.answered()
        if statement is None:
            return
        opened = self.open[0]
        if self._pushed_rows is not None:
            statement.rows = (statement.rows or 0) + self._pushed_rows
        if self._replies.get(opened.stream) == _REPLIES_TO_ALL:
            self._replies[opened.stream] = self._subscriptions.count(statement.operation or "")
        self._subscriptions.confirm(words)


def reply_mode(name: str, words: list[str]) -> str:
    """Return ``ON``, ``OFF`` or ``SKIP`` if a command is CLIENT REPLY."""
    if name != "CLIENT" or len(words) != 3 or words[1].upper() != "REPLY":
        return ""
    mode = words[2].upper()
    return mode if mode in {"ON", "OFF", "SKIP"} else ""
