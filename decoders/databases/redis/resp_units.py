"""The units of RESP 2 and 3, and of the snapshot that begins a replication link of Redis."""

from sslsniff.decoders.databases.units import NotAUnitError, Unit

BULKS, AGGREGATES = b"$!=", b"*~%>|"
KINDS = b"+-:_#,(" + BULKS + AGGREGATES
PAIRS = b"%|"  # maps and attributes have two elements for each that is counted
_LONGEST_LINE = 16 << 10
_MARK_BYTES = 40


def measure(data: bytes, at: int) -> tuple[int, int] | None:
    """Return the sizes of an element: see ``units.Measure``."""
    kind = data[at]
    if kind not in KINDS:
        raise NotAUnitError
    end = _line_end(data, at)
    if end is None:
        return None
    if kind in BULKS:
        size = number(data[at + 1 : end])
        return end + 2 - at, size + 2 if size >= 0 else 0
    return end + 2 - at, 0


def measure_client(data: bytes, at: int) -> tuple[int, int] | None:
    """Return the same for what a client sends, which may be a line that was typed by hand."""
    if data[at] in b"*$":
        return measure(data, at)
    end = _line_end(data, at)
    return None if end is None else (end + 2 - at, 0)


def number(line: bytes) -> int:
    """Return the number of a line. Raise ``NotAUnitError``."""
    try:
        return int(line)
    except ValueError:
        raise NotAUnitError from None


def _line_end(data: bytes, at: int) -> int | None:
    end = data.find(b"\r\n", at, at + _LONGEST_LINE)
    if end < 0:
        if len(data) - at >= _LONGEST_LINE:
            raise NotAUnitError
        return None
    return end


class Snapshot:
    """Skips the snapshot that a master sends before commands (redis.io, "Replication").

    It is ``$<length>`` and so many bytes, or ``$EOF:<mark>`` and bytes up to the mark. No line end
    follows.
    """

    def __init__(self) -> None:
        self.is_over = False
        self._mark = b""
        self._ends = False

    def measure(self, data: bytes, at: int) -> tuple[int, int] | None:
        """Return the sizes of the header, or of what came of the rest: see ``units.Measure``."""
        if self._mark:
            found = data.find(self._mark, at)
            self._ends = found >= 0
            size = (found + _MARK_BYTES if self._ends else len(data) - _MARK_BYTES + 1) - at
            return (0, size) if size > 0 else None
        if data[at : at + 1] == b"\n":  # the master is alive, and not ready yet
            return 1, 0
        if data[at : at + 1] != b"$":
            raise NotAUnitError
        end = _line_end(data, at)
        if end is None:
            return None
        line = data[at + 1 : end]
        return end + 2 - at, int(line) if line.isdigit() else 0

    def unit(self, unit: Unit) -> None:
        """Handle the next unit."""
        line = unit.header.strip()
        if self._mark:
            self.is_over = self._ends
        elif line.startswith(b"$EOF:"):
            self._mark = line[5:]
            if len(self._mark) != _MARK_BYTES:
                raise NotAUnitError
        else:
            self.is_over = line[1:].isdigit()
