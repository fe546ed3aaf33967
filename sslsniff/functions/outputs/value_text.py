"""Values of arguments and results as text of one line."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

from sslsniff.core.escaping import escape
from sslsniff.fetching.traced_values import (
    FollowedPointer,
    Items,
    Missing,
    NamedNumber,
    PointerValue,
    RawRegister,
    StructureValue,
    Text,
    Value,
)

_QUOTED = str.maketrans({'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"})
_CHARACTER = str.maketrans({"'": "\\'", "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"})


def value_text(value: Value) -> str:
    """Return a value as people read it, such as ``3``, ``"text"``, ``{x=1, y=2}``, ``Some(3)``.

    Characters that control a terminal are escaped.
    """
    return _TEXTS[type(value)](value)


def arguments_text(arguments: Mapping[str, Value]) -> str:
    """Return arguments by name, such as ``i=1, s="text"``, of an address ``%rdi=0x1f``."""
    shown = [
        f"%{name}={each.number:#x}"
        if type(each) is RawRegister and each.name == name
        else f"{_name(name)}={_TEXTS[type(each)](each)}"
        for name, each in arguments.items()
    ]
    return ", ".join(shown)


_name = functools.lru_cache(maxsize=4096)(escape)
"""Names of parameters and members are escaped once: there may be 100,000 calls in a second."""


def _text(value: Text) -> str:
    text = value.text
    is_plain = text.isascii() and text.isprintable() and '"' not in text and "\\" not in text
    shown = f'"{text if is_plain else escape(text.translate(_QUOTED))}"'
    if not value.more:
        return shown
    return f"{shown}..." if value.more < 0 else f"{shown}... {value.more} more"


def _items(value: Items) -> str:
    shown = [value_text(each) for each in value.items]
    if value.more:
        shown.append(f"... {value.more} more" if value.more > 0 else "...")
    return f"[{', '.join(shown)}]"


def _structure(value: StructureValue) -> str:
    names = [name for name, _ in value.fields]
    if is_tuple(names):
        shown = f"({', '.join(value_text(each) for _, each in value.fields)})"
    elif names:
        shown = f"{{{arguments_text(dict(value.fields))}}}"
    else:
        shown = "" if value.is_variant else "()" if value.name == "()" else "{}"
    if not value.is_variant:
        return shown
    return f"{escape(value.name)}{'' if is_tuple(names) or not names else ' '}{shown}"


def is_tuple(names: list[str]) -> bool:
    """Say whether the members of a structure are numbered: ``0``, ``1`` ..."""
    return bool(names) and names == [str(index) for index in range(len(names))]


_TEXTS: dict[type, Callable[[Any], str]] = {
    type(None): lambda value: "null",
    bool: lambda value: "true" if value else "false",
    int: str,
    float: repr,
    str: lambda value: f"'{escape(value.translate(_CHARACTER))}'",
    Missing: lambda value: value.value,
    PointerValue: lambda value: f"{value.number:#x}",
    FollowedPointer: lambda value: f"&{value_text(value.value)}",
    RawRegister: lambda value: f"%{value.name}:{value.number:#x}",
    Text: _text,
    NamedNumber: lambda value: str(value.number) if value.name is None else escape(value.name),
    Items: _items,
    StructureValue: _structure,
}
