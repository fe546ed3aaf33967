"""Reads numbers, blocks and strings of debug info one after the other (DWARF 5, section 7.6)."""

from types import TracebackType

from sslsniff.core.errors import ElfError


class DamagedError(Exception):
    """Debug info ends too early, or has what no compiler writes."""


class ReadingCheck:
    """Makes ``DamagedError`` of all that pyelftools raises: also assertions and ``KeyError``."""

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        is_known = isinstance(error, DamagedError | ElfError | MemoryError)
        if isinstance(error, Exception) and not is_known:
            raise DamagedError from error


reading = ReadingCheck()
"""For all calls of pyelftools."""


class Bytes:
    """A section that is read from ``at`` on; raises ``DamagedError`` at its end."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    def fixed(self, size: int) -> int:
        """Return the next ``size`` bytes as a number without sign."""
        return int.from_bytes(self.block(size), "little")

    def block(self, size: int) -> bytes:
        """Return the next ``size`` bytes."""
        found = self.data[self.at : self.at + size]
        if len(found) != size or self.at < 0:
            raise DamagedError
        self.at += size
        return found

    def uleb(self) -> int:
        """Return a number of variable length."""
        try:
            byte = self.data[self.at]
            self.at += 1
            if byte < 0x80:
                return byte
            value = byte & 0x7F
            shift = 7
            while True:
                byte = self.data[self.at]
                self.at += 1
                value |= (byte & 0x7F) << shift
                shift += 7
                if byte < 0x80:
                    return value
                if shift > 128:
                    raise DamagedError
        except IndexError:
            raise DamagedError from None

    def sleb(self) -> int:
        """Return a number of variable length with its sign."""
        start = self.at
        value = self.uleb()
        bits = 7 * (self.at - start)
        return value - (1 << bits) if value >> bits - 1 else value

    def string(self) -> bytes:
        """Return the bytes up to a zero, which is passed."""
        end = self.data.find(b"\0", self.at)
        if end < 0 or self.at < 0:
            raise DamagedError
        found = self.data[self.at : end]
        self.at = end + 1
        return found


def damaged(path: str) -> ElfError:
    """Return the error for debug info that cannot be read."""
    return ElfError(f"the debug info of {path} is cut off or damaged", "build or install it again")
