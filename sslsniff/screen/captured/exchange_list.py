"""Filters and sorts the exchanges of the list, a slice at a time."""

import time
from collections import deque
from collections.abc import Callable
from typing import Any

from sslsniff.filters.filters import Filter
from sslsniff.screen.captured.capture_rows import ExchangeRow
from sslsniff.screen.captured.capture_store import Store
from sslsniff.screen.captured.rebuilt_exchanges import exchange_of_line

_SLICE_S = 0.01
"""How long exchanges are matched before keys are looked at again."""


class ExchangeList:
    """The exchanges of ``store`` that match a filter, in an order.

    ``only_failed``: without those that did not fail. A change counts from ``show_matching`` on.
    """

    def __init__(self, store: Store) -> None:
        self.rows: list[ExchangeRow] = []
        self.expression: Filter | None = None
        self.only_failed = False
        self.key: Callable[[ExchangeRow], Any] = lambda row: row.time
        self.is_reversed = False
        self.without_text = 0
        """Statements that did not match a filter of SQL, and whose text was not seen."""
        self._store = store
        self._last_number = 0
        self._waiting: deque[ExchangeRow] = deque()
        """Those that are not matched yet, also as they have not ended."""

    @property
    def waits(self) -> bool:
        """Whether exchanges wait to be matched, or to end before they can be."""
        return bool(self._waiting)

    @property
    def is_filtered(self) -> bool:
        """Whether exchanges may be left out of the list."""
        return self.only_failed or self.expression is not None

    def show_matching(self, expression: Filter | None) -> None:
        """List the exchanges that match; None: all."""
        self.expression = expression
        self.without_text = 0
        self._last_number = 0
        self.rows = []
        self._waiting.clear()

    def update(self) -> bool:
        """Add exchanges that are new, leave out those that were dropped, and sort.

        Returns whether some wait to be matched: then call it again soon.
        """
        first = self._add_new()
        waits = self.match()
        if self.rows and first > 1:
            self.rows = [row for row in self.rows if row.number >= first]
        self.rows.sort(key=self.key, reverse=self.is_reversed)
        return waits

    def _add_new(self) -> int:
        """Note the exchanges that are new; return the number of the oldest that is stored."""
        with self._store.lock:
            new = []
            for number, row in reversed(self._store.rows.items()):
                if number <= self._last_number:
                    break
                new.append(row)
            first = next(iter(self._store.rows), 1)
        if new:
            self._last_number = new[0].number
            new.reverse()
            if not self.is_filtered:
                self.rows += new
            else:
                self._waiting += new
        return first

    def match(self) -> bool:
        """Match exchanges for a while; those that have not ended wait until they have.

        Returns whether some wait to be matched. What matches is in ``rows``, at their end.
        """
        if not self.is_filtered:
            return False
        until = time.monotonic() + _SLICE_S
        for _ in range(len(self._waiting)):
            row = self._waiting.popleft()
            if row.line is None:
                self._waiting.append(row)
            elif self._matches(row):
                self.rows.append(row)
            if time.monotonic() > until:
                return True
        return False

    def _matches(self, row: ExchangeRow) -> bool:
        if self.only_failed and not row.is_failed:
            return False
        if self.expression is None:
            return True
        assert row.line is not None
        connection = row.connection
        exchange = exchange_of_line(row.line, connection.origin, connection.sni)
        matches = self.expression.matches(exchange)
        if self.expression.tests_sql and not matches and exchange.statement is not None:
            self.without_text += exchange.statement.lacks_text
        return matches
