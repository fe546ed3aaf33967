"""Decodes the protocol of Redis: RESP 2 and 3 (redis.io, "Redis serialization protocol")."""

import re

from sslsniff.decoders.databases.database_decoder import DatabaseDecoder
from sslsniff.decoders.databases.redis.passwords import without_passwords
from sslsniff.decoders.databases.statement import MOST_TEXT_BYTES, Statement, shown_value
from sslsniff.decoders.databases.units import NotAUnitError, Unit, UnitSplitter
from sslsniff.decoders.messages import Side

_LONGEST_LINE = 16 << 10
_MOST_WORDS = 1 << 20  # of a command, as Redis allows
_SHOWN_WORDS = 1000
_BULKS, _AGGREGATES = b"$!=", b"*~%>|"
_KINDS = b"+-:_#,(" + _BULKS + _AGGREGATES
_PAIRS = b"%|"  # maps and attributes have two elements for each that is counted
_COMMAND = re.compile(rb"\*[1-9][0-9]{0,6}\r\n\$[1-9][0-9]?\r\n[A-Za-z]")
_SUBSCRIBES = frozenset(("SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE"))
_UNSUBSCRIBES = frozenset(("UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE"))


class RedisDecoder(DatabaseDecoder):
    """See ``DatabaseDecoder``. Each command is a statement, and each message that is pushed."""

    protocol = "redis"

    def __init__(self) -> None:
        self._words: list[bytes] = []
        self._words_left = 0
        self._sizes = 0
        self._replies: dict[int, int] = {}
        """How many replies a command gets, by its stream, where it is not one."""
        self._elements_left = 0
        self._pushed: list[str] | None = None
        self._is_silent = False
        super().__init__()

    def new_reader(self, side: Side) -> UnitSplitter:
        """See ``DatabaseDecoder``."""
        return UnitSplitter(_measure_client if side is Side.CLIENT else _measure)

    def begins(self, side: Side, data: bytes) -> bool:
        """See ``DatabaseDecoder``: nothing tells a connection's first command from later ones."""
        return False

    def find(self, side: Side, data: bytes) -> int:
        """See ``DatabaseDecoder``."""
        if side is Side.CLIENT:
            found = _COMMAND.search(data)
            return found.start() if found else -1
        line, end, _ = data[1:64].partition(b"\r\n")
        is_number = line.lstrip(b"-").isdigit() or not end
        return 0 if data[0] in _KINDS and (data[:1] in {b"+", b"-"} or is_number) else -1

    def forget(self) -> None:
        """See ``DatabaseDecoder``."""
        self._words, self._words_left, self._sizes = [], 0, 0
        self._replies.clear()
        self._elements_left, self._pushed = 0, None

    @property
    def stored_bytes(self) -> int:
        """See ``DatabaseDecoder``."""
        return self._sizes + 50 * len(self._words) + 100 * len(self._replies)

    def unit(self, side: Side, unit: Unit) -> None:
        """See ``DatabaseDecoder``."""
        if side is Side.CLIENT:
            self._sent(unit)
        else:
            self._received(unit)

    # What the client sends.

    def _sent(self, unit: Unit) -> None:
        kind, line = unit.header[:1], unit.header[1:-2]
        if not self._words_left:
            if kind == b"*":
                self._words_left = _number(line)
                if self._words_left > _MOST_WORDS:
                    raise NotAUnitError
            elif line or kind.strip():  # typed by hand
                self._command(unit.header.split(), len(unit.header))
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
            self._command(words, size)

    def _command(self, raw: list[bytes], size: int) -> None:
        words = without_passwords([*map(shown_value, raw)])
        if not words:
            return
        name = words[0].upper()
        text = " ".join([name, *words[1:]])
        self._note_session(name, words)
        opened = self.begin(Statement("redis", name, text[:MOST_TEXT_BYTES], size))
        count = 1
        if name in _SUBSCRIBES | _UNSUBSCRIBES:
            count = max(1, len(words) - 1)
        elif self._is_silent and name != "CLIENT":
            count = 0
        if name == "CLIENT" and [word.upper() for word in words[1:2]] == ["REPLY"]:
            mode = words[2].upper() if len(words) > 2 else ""
            self._is_silent = mode == "OFF"
            count = int(mode == "ON")
        if not count and self.open[0] is opened:
            self.end_oldest()
        elif count != 1:
            self._replies[opened.stream] = count

    def _note_session(self, name: str, words: list[str]) -> None:
        if name == "SELECT" and len(words) == 2:
            self.database = words[1]
        elif name == "AUTH" and len(words) == 3:
            self.user = words[1]
        elif name == "HELLO":
            named = [word.upper() for word in words]
            at = named.index("AUTH") + 1 if "AUTH" in named else len(words)
            self.user = words[at] if at < len(words) else self.user

    # What the server sends.

    def _received(self, unit: Unit) -> None:
        kind, line = unit.header[:1], unit.header[1:-2]
        is_aggregate = kind in _AGGREGATES
        if not self._elements_left:
            self._begin_reply(kind, line, unit)
            self._elements_left = 1
        if self._pushed is not None and not is_aggregate and len(self._pushed) < _SHOWN_WORDS:
            self._pushed.append(
                shown_value(unit.data[:-2] if kind in _BULKS else line) if line != b"-1" else ""
            )
        count = max(0, _number(line)) if is_aggregate else 0
        self._elements_left += count * (2 if kind in _PAIRS else 1)
        if kind != b"|":  # attributes come before an element, and are none
            self._elements_left -= 1
        if not self._elements_left:
            self._end_reply()

    def _begin_reply(self, kind: bytes, line: bytes, unit: Unit) -> None:
        self._pushed = None
        if kind == b">" or not self.open:
            self._pushed = []
            return
        statement = self.answered()
        if statement is None:
            return
        if kind in b"-!":
            said = shown_value(line if kind == b"-" else unit.data[:-2])
            code, _, text = said.partition(" ")
            statement.code, statement.error = code, text or code
        elif kind in _AGGREGATES and kind != b"|" and line != b"-1":
            statement.rows = (statement.rows or 0) + max(0, _number(line))

    def _end_reply(self) -> None:
        pushed, self._pushed = self._pushed, None
        if pushed is not None and not self._confirms(pushed):
            text = " ".join(pushed)[:MOST_TEXT_BYTES]
            self.report(Statement("redis", "PUSH", text, len(text)))
            return
        if not self.open:
            return
        opened = self.open[0]
        left = self._replies.get(opened.stream, 1) - 1
        if left > 0:
            self._replies[opened.stream] = left
            return
        self._replies.pop(opened.stream, None)
        self.answered()
        self.end_oldest()

    def _confirms(self, pushed: list[str]) -> bool:
        """Return whether what was pushed answers the oldest command, which subscribes (RESP 3)."""
        if not self.open or not pushed:
            return False
        operation = self.open[0].statement.operation
        return operation in _SUBSCRIBES | _UNSUBSCRIBES and pushed[0].upper() == operation


def _measure(data: bytes, at: int) -> tuple[int, int] | None:
    kind = data[at]
    if kind not in _KINDS:
        raise NotAUnitError
    end = _line_end(data, at)
    if end is None:
        return None
    if kind in _BULKS:
        size = _number(data[at + 1 : end])
        return end + 2 - at, size + 2 if size >= 0 else 0
    return end + 2 - at, 0


def _measure_client(data: bytes, at: int) -> tuple[int, int] | None:
    if data[at] in b"*$":
        return _measure(data, at)
    end = _line_end(data, at)  # a command that was typed by hand
    return None if end is None else (end + 2 - at, 0)


def _line_end(data: bytes, at: int) -> int | None:
    end = data.find(b"\r\n", at, at + _LONGEST_LINE)
    if end < 0:
        if len(data) - at >= _LONGEST_LINE:
            raise NotAUnitError
        return None
    return end


def _number(line: bytes) -> int:
    try:
        return int(line)
    except ValueError:
        raise NotAUnitError from None
