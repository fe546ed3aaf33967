"""What a file says about its code while it runs: its worker reads that."""

from collections.abc import Callable
from functools import lru_cache, partial

from sslsniff.core.errors import SslsniffError
from sslsniff.elf.call_frames import CallFrame
from sslsniff.elf.file_format import CodePart
from sslsniff.functions.stacks.stack_trace import CodePlace
from sslsniff.functions.workers import requests
from sslsniff.functions.workers.code_messages import parse_frame, parse_places
from sslsniff.functions.workers.file_reader import FileReader, UnreadFileError

LACK_FUNCTIONS = "stacks lack functions"
"""Begins a line on a file that is not looked into, or not any more."""

_MOST_KNOWN = 65_536


class ReadCode:
    """The code of a file; ``name``: as it is shown. Addresses are as linked.

    ``report``: called with a line if the worker fails: functions have no names after that.
    """

    def __init__(self, reader: FileReader, name: str, report: Callable[[str], None]) -> None:
        self.name = name
        self._reader = reader
        self._report = report
        self._is_reported = False
        self._frame_at = lru_cache(_MOST_KNOWN)(self._read_frame)
        self._places_at = lru_cache(_MOST_KNOWN)(self._read_places)

    @property
    def parts(self) -> list[CodePart]:
        """Its segments of code."""
        return self._reader.code

    def call_frame(self, address: int) -> CallFrame | None:
        """Return what leads from the code at ``address`` to its caller; None: unknown."""
        return self._frame_at(address)

    def places(self, address: int) -> tuple[CodePlace, ...]:
        """Return the functions that the code at ``address`` is of, the innermost first."""
        return self._places_at(address)

    def _read_frame(self, address: int) -> CallFrame | None:
        try:
            return self._reader.ask({"do": requests.FRAME, "address": address}, parse_frame)
        except SslsniffError as error:
            self._fail(error)
            return None

    def _read_places(self, address: int) -> tuple[CodePlace, ...]:
        parse = partial(parse_places, module=self.name, address=address)
        try:
            return self._reader.ask({"do": requests.CODE, "address": address}, parse)
        except SslsniffError as error:
            self._fail(error)
            return (CodePlace(None, None, None, False, self.name, address),)

    def _fail(self, error: SslsniffError) -> None:
        if isinstance(error, UnreadFileError) and not self._is_reported:
            self._is_reported = True
            self._report(f"{LACK_FUNCTIONS}: {error}")
