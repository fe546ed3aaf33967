"""Values of arguments and results as JSON."""

import math
from collections.abc import Callable, Mapping
from typing import Any

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
from sslsniff.functions.outputs.value_text import is_tuple

_WITHOUT_VALUE = "None"
_UNIT = "()"


def json_value(value: Value) -> object:
    """Return a value as an object for ``json.dumps``.

    Numbers are exact, also beyond 2**53. A variant of an enum is an object of its name and its
    values, as serde_json has it; one without values is its name, ``None`` is null.
    """
    return _OBJECTS[type(value)](value)


def json_values(values: Mapping[str, Value]) -> dict[str, object]:
    """Return values by name, each as ``json_value`` does."""
    return {
        name: value if type(value) is int else _OBJECTS[type(value)](value)
        for name, value in values.items()
    }


def _float(value: float) -> object:
    return value if math.isfinite(value) else repr(value)  # JSON has neither NaN nor infinity


def _text(value: Text) -> object:
    if not value.more:
        return value.text
    return {"text": value.text, "missing_bytes": value.more if value.more > 0 else None}


def _items(value: Items) -> object:
    items = [json_value(each) for each in value.items]
    return (
        {"items": items, "missing": value.more if value.more > 0 else None} if value.more else items
    )


def _structure(value: StructureValue) -> object:
    names = [name for name, _ in value.fields]
    if value.name == _UNIT:
        return None
    if value.is_variant and not names:
        return None if value.name == _WITHOUT_VALUE else value.name
    fields: object = {name: json_value(each) for name, each in value.fields}
    if is_tuple(names):
        fields = [json_value(each) for _, each in value.fields]
        if value.is_variant and len(names) == 1:
            (fields,) = fields
    return {value.name: fields} if value.is_variant else fields


_OBJECTS: dict[type, Callable[[Any], object]] = {
    type(None): lambda value: None,
    bool: lambda value: value,
    int: lambda value: value,
    float: _float,
    str: lambda value: value,
    Missing: lambda value: {"missing": value.value.strip("<>")},
    PointerValue: lambda value: f"{value.number:#x}",
    FollowedPointer: lambda value: json_value(value.value),
    RawRegister: lambda value: {"register": value.name, "value": f"{value.number:#x}"},
    Text: _text,
    NamedNumber: lambda value: value.number if value.name is None else value.name,
    Items: _items,
    StructureValue: _structure,
}
