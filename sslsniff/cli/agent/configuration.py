"""The file of ``sslsniff agent``: TOML, whose settings are options of ``sslsniff``.

An option says which setting it is, so that both take the same values.
"""

import argparse
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from sslsniff.cli.options.shared_options import parse_filter
from sslsniff.cli.options.watch_options import WATCH
from sslsniff.core.errors import ConfigurationError, FilterError, PricesError
from sslsniff.model_calls.options import PRICES
from sslsniff.model_calls.prices import read_prices
from sslsniff.settings import values
from sslsniff.settings.option import Kind as OptionKind
from sslsniff.settings.option import Option


class Kind(Enum):
    """What the value of a setting is."""

    FLAG = "true or false"
    TEXT = "a text in quotation marks"
    NUMBER = "a number"
    TEXTS = "a list of texts"
    NUMBERS = "a list of numbers"


class Setting(NamedTuple):
    """A setting of the file, and the option that it is; None: the agent itself uses it."""

    table: str
    name: str
    kind: Kind
    option: Option[Any] | None

    @property
    def written(self) -> str:
        """How messages of the command line call it."""
        return self.option.name if self.option is not None else ""


def _kind(option: Option[Any]) -> Kind:
    if option.kind is OptionKind.FLAG:
        return Kind.FLAG
    if option.kind is OptionKind.LIST:
        return Kind.NUMBERS if option.is_number else Kind.TEXTS
    return Kind.NUMBER if option.is_number else Kind.TEXT


_TABLES = ("watch", "redact", "limits", "otlp", "kafka", "parquet", "lines", "models", "health")
_OWN = (
    Setting("redact", "enabled", Kind.FLAG, None),
    Setting("limits", "memory", Kind.TEXT, None),
    Setting("limits", "disk", Kind.TEXT, None),
    Setting("health", "listen", Kind.TEXT, None),
)
_SETTINGS = (
    *_OWN,
    *(
        Setting(*each.setting, _kind(each), each)
        for each in WATCH.options
        if each.setting is not None
    ),
)
_BY_NAME = {(each.table, each.name): each for each in _SETTINGS}
_OUTPUTS = ("otlp", "kafka", "parquet", "lines")
_LEAVING = ("otlp", "kafka")
_SMALLEST_LIMITS = {"memory": "1M", "disk": "1K"}
_OPTION = re.compile(r"--[a-z-]+")
_LOOPBACK = re.compile(r"(127\.\d+\.\d+\.\d+|localhost|\[::1\]):(\d{1,5})")


@dataclass(frozen=True)
class Configuration:
    """What a file says. ``arguments``: the capture's arguments.

    ``memory_bytes``, ``disk_bytes``: limits or None. ``tables``: the folder that the limit of
    the disk is for. ``health``: host and port; None: no one asks.
    """

    arguments: tuple[str, ...]
    memory_bytes: int | None
    disk_bytes: int | None
    tables: Path | None
    health: tuple[str, int] | None


def read(path: str) -> Configuration:
    """Return what the file ``path`` says. Raises ``ConfigurationError``, with the line."""
    try:
        text = Path(path).read_text("utf-8")
        found = tomllib.loads(text)
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror}", "name a file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} is not TOML: {error}", "mend that") from None
    return _Reader(path, text).configuration(found)


class _Reader:
    """Turns the tables of a file into a ``Configuration``."""

    def __init__(self, path: str, text: str) -> None:
        self._path = path
        self._lines = text.splitlines()

    def configuration(self, found: dict[str, Any]) -> Configuration:
        """Return what the tables say."""
        given = dict(self._given(found))
        listen, disk = given.get(("health", "listen")), self._size(given, "disk")
        folder = _folder(given)
        if disk is not None and (not folder or "://" in folder):
            raise self._error(
                "limits.disk is for a folder of tables", "set parquet.folder", "limits", "disk"
            )
        if not any(table in _OUTPUTS for table, _ in given):
            raise ConfigurationError(
                f"{self._path} has no output", f"add one of {_listed(_OUTPUTS)}"
            )
        arguments = (*self._arguments(given),)
        self._check(arguments)
        return Configuration(
            arguments=arguments,
            memory_bytes=self._size(given, "memory"),
            disk_bytes=disk,
            tables=Path(folder) if disk is not None else None,
            health=self._address(listen) if listen is not None else None,
        )

    def _given(self, found: dict[str, Any]) -> Iterator[tuple[tuple[str, str], Any]]:
        """Yield each setting, by table and name, with its value."""
        for table, settings in found.items():
            if table not in _TABLES:
                raise self._unknown(f"table [{table}]", table, _TABLES, table)
            if not isinstance(settings, dict):
                raise self._error(
                    f"{table} is a table", f"write [{table}], and its settings below", "", table
                )
            for name, value in settings.items():
                setting = _BY_NAME.get((table, name))
                if setting is None:
                    known = [each.name for each in _SETTINGS if each.table == table]
                    raise self._unknown(f"setting {table}.{name}", name, known, table, name)
                if not _is_of(setting.kind, value):
                    raise self._error(
                        f"{table}.{name} is not {setting.kind.value}",
                        "write it so",
                        table,
                        name,
                    )
                yield (table, name), value

    def _arguments(self, given: dict[tuple[str, str], Any]) -> Iterator[str]:
        for (table, name), value in given.items():
            option = _BY_NAME[table, name].option
            if option is None or value is False:
                continue
            if value is True:
                yield option.name
            elif option.kind is OptionKind.PLACE:
                yield value
            else:
                for each in value if isinstance(value, list) else [value]:
                    yield f"{option.name}={each}"
        if given.get(("redact", "enabled"), True):
            yield "--redact"
        elif any(table in _LEAVING for table, _ in given) or "://" in _folder(given):
            yield "--no-redact"

    def _check(self, arguments: tuple[str, ...]) -> None:
        """Raise the error that a capture with these ``arguments`` would end with."""

        def fail(message: str) -> NoReturn:
            for each in _SETTINGS:
                argument = f"argument {each.written}: "
                if each.written and message.startswith(argument):
                    fact = f"{each.table}.{each.name}: {message.removeprefix(argument)}"
                    raise self._error(fact, "mend that", each.table, each.name)
            options = {
                each.written: f"{each.table}.{each.name}" for each in _SETTINGS if each.written
            }
            text = message.replace(" -- COMMAND,", "")
            text = _OPTION.sub(lambda found: options.get(found[0], found[0]), text)
            fact, _, remedy = text.rpartition(": ")
            raise ConfigurationError(f"{self._path}: {fact}", remedy)

        parser = WATCH.parser()
        parser.error = fail  # type: ignore[method-assign]
        asked = WATCH.parse(arguments, parser)
        try:
            parse_filter(asked)
        except FilterError as error:
            fact = f"watch.filter: {error.fact}"
            raise self._error(fact, error.remedy, "watch", "filter") from None
        try:
            if (prices := asked[PRICES]) is not None:
                read_prices(prices)
        except PricesError as error:
            fact = f"models.prices: {error.fact}"
            raise self._error(fact, error.remedy, "models", "prices") from None

    def _size(self, given: dict[tuple[str, str], Any], name: str) -> int | None:
        text = given.get(("limits", name))
        if text is None:
            return None
        try:
            size = values.size(text)
        except argparse.ArgumentTypeError as error:
            fact = f"limits.{name}: {error}"
            raise self._error(fact, "mend that", "limits", name) from None
        least = _SMALLEST_LIMITS[name]
        if size < values.size(least):
            fact = f"limits.{name}: {text!r} is less than {least}"
            raise self._error(fact, "leave it out for no limit", "limits", name)
        return size

    def _address(self, text: str) -> tuple[str, int]:
        found = _LOOPBACK.fullmatch(text)
        if found is None or not 0 < int(found[2]) < 1 << 16:
            raise self._error(
                f"health.listen: {text!r} is no port of this machine alone",
                "use 127.0.0.1:9464 or [::1]:9464",
                "health",
                "listen",
            )
        return found[1].strip("[]"), int(found[2])

    def _unknown(
        self, what: str, word: str, known: "tuple[str, ...] | list[str]", *place: str
    ) -> ConfigurationError:
        near = get_close_matches(word, known, n=1)
        remedy = f"did you mean {near[0]}?" if near else f"use one of {_listed(known)}"
        return self._error(f"unknown {what}", remedy, *place)

    def _error(self, fact: str, remedy: str, table: str, name: str = "") -> ConfigurationError:
        line = self._line(table, name)
        where = f"{self._path}, line {line}" if line else self._path
        return ConfigurationError(f"{where}: {fact}", remedy)

    def _line(self, table: str, name: str) -> int | None:
        """Return the number of the line that sets ``name``, or begins the table; None: not found.

        A file may write both otherwise (inline tables): then there is none.
        """
        begins = None if table else 0
        for number, line in enumerate(self._lines, 1):
            text = line.strip()
            if text.startswith("["):
                if begins is not None:
                    break
                if re.fullmatch(rf"\[\s*{re.escape(table)}\s*\].*", text):
                    begins = number
            elif (
                begins is not None
                and name
                and re.match(rf"[\"']?{re.escape(name)}[\"']?\s*=", text)
            ):
                return number
        return begins or None


def _folder(given: dict[tuple[str, str], Any]) -> str:
    """Return the folder of tables; empty if there is none."""
    folder: str = given.get(("parquet", "folder"), "")
    return folder


def _is_of(kind: Kind, value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match kind:
        case Kind.FLAG:
            return isinstance(value, bool)
        case Kind.TEXT:
            return isinstance(value, str) and bool(value)
        case Kind.NUMBER:
            return is_number
        case Kind.TEXTS:
            return isinstance(value, list) and all(isinstance(e, str) and e for e in value)
        case Kind.NUMBERS:
            return isinstance(value, list) and all(type(each) is int for each in value)


def _listed(names: "tuple[str, ...] | list[str]") -> str:
    return ", ".join(names)
