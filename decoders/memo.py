"""A dictionary of bounded size for parsed values: most of what passes on connections comes again.

Only modules that remember for the whole process have one; what parses keeps no state.
"""

from typing import Generic, TypeVar

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Memo(dict[_Key, _Value], Generic[_Key, _Value]):
    """Values by what they were parsed from; at most ``most_entries``.

    When it is full it forgets all, so that a look-up is that of a dict, and keeps no order: what is
    frequent is back soon. Values are shared by all who look them up, so not to be changed. Who adds
    an entry bounds its size.
    """

    __slots__ = ("_most_entries",)

    def __init__(self, most_entries: int) -> None:
        self._most_entries = most_entries

    def add(self, key: _Key, value: _Value) -> None:
        """Remember ``value``."""
        if len(self) >= self._most_entries:
            self.clear()
        self[key] = value
