"""Recognises symbols of what is only a part of a function: no call begins there.

gcc and clang move code that rarely runs elsewhere, as ``f.cold``, and jump there. gcc also makes
the rest of a function a function of its own, ``f.part.0``, when it inlines only the beginning.
"""

import re

_JUMPED_TO = re.compile(r"^(.+?)\.(?:cold|warm|__part\.\d+)(?:\.(?:\d+|lto_priv\.\d+|llvm\.\d+))*$")
_CALLED = re.compile(r"^(.+?)(?:\.(?:constprop|isra)\.\d+)*\.part\.\d+")

MARKS_OF_PARTS = (b".cold", b".warm", b".__part.", b".part.")
"""Each part has one of these in its name."""


def jumped_from(symbol: str) -> str | None:
    """Return the symbol of the function whose code jumps to this part of it; None: it is none.

    Go's functions may have such names: ``main.cold`` is one of package ``main``.
    """
    found = _JUMPED_TO.match(symbol)
    return found[1] if found else None


def part_of(symbol: str) -> str | None:
    """Return the symbol of the function of which this one is a part; None: it is whole."""
    base = jumped_from(symbol) or symbol
    found = _CALLED.match(base)
    if found:
        return found[1]
    return base if base != symbol else None
