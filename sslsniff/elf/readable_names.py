"""Names of functions as people write them, from those that the linker has."""

import functools
import re

from sslsniff.elf.symbols import demangle

_CPP = "_Z"
# What may follow the parameters: qualifiers of methods, and which copy of a function it is.
_AFTER_PARAMETERS = re.compile(r"(\s*(const|volatile|&&?|\[[^]]*\]))+$")
_OPENING, _CLOSING = "(<[{", ")>]}"
_OPERATOR = "operator"


@functools.lru_cache(maxsize=65_536)
def readable_name(symbol: str) -> str:
    """Return a symbol demangled, or as it is: ``_ZN3foo3barEi`` -> ``foo::bar``.

    C++'s parameters are left out, and results of its templates: debug info has none in names, and
    those of Rust and Go have none.
    """
    rust = demangle(symbol)
    if rust is not None or not symbol.startswith(_CPP):
        return rust or symbol
    import cpp_demangle  # only names of C++ need it

    try:
        return _without_result(_without_parameters(cpp_demangle.demangle(symbol)))
    except ValueError:
        return symbol


def _without_parameters(name: str) -> str:
    name = _AFTER_PARAMETERS.sub("", name)
    if not name.endswith(")"):
        return name
    depth = 0
    for at in range(len(name) - 1, -1, -1):
        depth += (name[at] == ")") - (name[at] == "(")
        if not depth:
            return name if name.endswith(_OPERATOR, 0, at) else name[:at]
    return name


def _without_result(name: str) -> str:
    """Return what follows the last space that is not within brackets, nor after ``operator``."""
    depth = start = 0
    for at, character in enumerate(name):
        if character == " " and not depth and not name.endswith(_OPERATOR, 0, at):
            if _OPERATOR in name[start:at]:
                break  # `operator unsigned long`
            start = at + 1
        elif not name.endswith((_OPERATOR, "operator<", "operator-", "operator>"), 0, at):
            depth += (character in _OPENING) - (character in _CLOSING)
    return name[start:]
