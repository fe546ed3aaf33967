"""A dictionary of bounded size for parsed values: most values on connections are repeated.

A memo belongs to a module, for the whole process. Parsers themselves have no state.
"""

from typing import Generic, TypeVar

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Memo(dict[_Key, _Value], Generic[_Key, _Value]):
    """Values by what they were parsed from; at most ``most_entries``.

    When it is full, it is cleared: frequent values are soon back, and no look-up has to update an
    order. Values are shared: do not change them. The caller of ``add`` bounds an entry's size.
    """

    __slots__ = ("_most_entries",)

    def __init__(self, most_entries: int) -> None:
        self._most_entries = most_entries

    def add(self, key: _Key, value: _Value) -> None:
        """Store ``value``; clear the memo first if it is full."""
        if len(self) >= self._most_entries:
            self.clear()
        self[key] = value
