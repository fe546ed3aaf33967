"""Reads JSON of unknown form: what is not of the wanted type counts as not there."""

from collections.abc import Iterator
from typing import Any

Object = dict[str, Any]

NESTED = "(nested too deeply)"
"""Stands for JSON text that cannot be shown."""
_MOST_VALUES = 200_000
"""Values of a document, by the marks between them: as Python's objects they take some 25 MB."""


def parse_json(data: bytes) -> Any:
    """Return the value of a JSON document. Raises ``ValueError``, also for too many values."""
    if sum(map(data.count, (b",", b"[", b"{"))) > _MOST_VALUES:
        raise ValueError(f"over {_MOST_VALUES:,} values")
    import orjson  # only where a model is called

    return orjson.loads(data)


def as_json(value: object) -> str:
    """Return a value as JSON text: a text stays as it is, nothing is empty.

    orjson reads values that are nested more deeply (1024) than it writes (254).
    """
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    import orjson

    try:
        return orjson.dumps(value).decode()
    except TypeError:
        return NESTED


def text(value: Any, *names: str) -> str | None:
    """Return the text at a path of names; None if there is none."""
    found = at(value, *names)
    return found if isinstance(found, str) else None


def number(value: Any, *names: str) -> int | None:
    """Return the whole number at a path of names; None if there is none."""
    found = at(value, *names)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def objects(value: Any, *names: str) -> Iterator[Object]:
    """Yield the objects in the list at a path of names; an object there counts as a list of one."""
    found = at(value, *names)
    if isinstance(found, dict):
        yield found
    elif isinstance(found, list):
        yield from (each for each in found if isinstance(each, dict))


def at(value: Any, *names: str) -> Any:
    """Return the value at a path of names; None if there is none."""
    for name in names:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def error_text(document: Object) -> str | None:
    """Return what a server says about an error; None if the document has none."""
    error = document.get("error")
    if error is None:
        return None
    return text(error, "message") or as_json(error)
