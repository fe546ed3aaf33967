"""The prices of tokens, from a file of the user.

    currency = "USD"

    [models."gpt-5*"]  # of a million tokens
    input = 1.25
    output = 10
    cached_input = 0.125
    cache_write = 1.25

Names are patterns of the shell. The first that fits the model that answered counts, else the first
that fits the one that was asked for.
"""

import functools
import tomllib
from decimal import Decimal
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from sslsniff.core.errors import PricesError
from sslsniff.core.escaping import escape
from sslsniff.decoders.inner.models.model_call import Cost, ModelCall, TokenUsage

_REQUIRED, _OPTIONAL = ("input", "output"), ("cached_input", "cache_write")
_PAGE = "docs/model-calls.md has an example"
_MILLION = -6  # as a power of ten
_MOST = 10**12
_MOST_CURRENCY_CHARACTERS = 10


class Price(NamedTuple):
    """The prices of a million tokens of a model. Tokens of a cache cost as ``input`` by default."""

    input: Decimal
    output: Decimal
    cached_input: Decimal
    cache_write: Decimal

    def of(self, usage: TokenUsage) -> Decimal:
        """Return what the tokens cost."""
        fresh, output = usage.input or 0, usage.output or 0
        cached, written = usage.cached or 0, usage.written or 0
        if usage.input_has_cached:
            fresh -= cached + written
        if not usage.output_has_reasoning:
            output += usage.reasoning or 0
        counts = (max(0, each) for each in (fresh, output, cached, written))
        total = sum((price * count for price, count in zip(self, counts, strict=True)), Decimal())
        return total.scaleb(_MILLION)


class Prices:
    """The prices of ``models``, by patterns of their names, in the order in which they count."""

    def __init__(self, currency: str, models: dict[str, Price]) -> None:
        self._currency = currency
        self._models = models
        self._price_of = functools.lru_cache(maxsize=1024)(self._find)

    def cost_of(self, call: ModelCall) -> Cost | None:
        """Return what a call cost; None if its server gave no figures."""
        usage = call.usage
        if usage.input is None and usage.output is None:
            return None
        names = filter(None, (call.answered_by, call.model))
        price = next(filter(None, map(self._price_of, names)), None)
        return Cost(price.of(usage) if price is not None else None, self._currency)

    def _find(self, name: str) -> Price | None:
        found = (price for each, price in self._models.items() if fnmatchcase(name, each))
        return next(found, None)


def read_prices(path: str) -> Prices:
    """Return the prices in the file ``path``. Raises ``PricesError``."""
    try:
        found = tomllib.loads(Path(path).read_text("utf-8"), parse_float=Decimal)
    except OSError as error:
        raise PricesError(
            f"cannot read {path}: {error.strerror}", "name a file of prices"
        ) from None
    except ValueError as error:  # of TOML, of UTF-8, or of a name
        raise PricesError(f"{path} is not TOML: {error}", _PAGE) from None
    unknown = sorted(found.keys() - {"currency", "models"})
    if unknown:
        raise PricesError(f"{path}: unknown setting {escape(unknown[0])}", "use currency, models")
    currency, models = found.get("currency"), found.get("models")
    if not (isinstance(currency, str) and 0 < len(currency) <= _MOST_CURRENCY_CHARACTERS):
        raise PricesError(f"{path}: there is no currency", 'write such as currency = "USD"')
    if not (isinstance(models, dict) and models):
        raise PricesError(f"{path}: there is no model", 'write such as [models."gpt-*"]')
    return Prices(currency, {name: _price(path, name, each) for name, each in models.items()})


def _price(path: str, name: str, found: Any) -> Price:
    shown = f'models."{escape(name)}"'
    where = f"{path}: {shown}"
    if not isinstance(found, dict):
        raise PricesError(f"{where} is no table of prices", f"write [{shown}]")
    known = (*_REQUIRED, *_OPTIONAL)
    unknown = sorted(found.keys() - {*known})
    if unknown:
        raise PricesError(f"{where}: unknown price {escape(unknown[0])}", f"use {', '.join(known)}")
    for each in _REQUIRED:
        if each not in found:
            raise PricesError(f"{where} has no {each}", "add the price of a million tokens")
    for each, value in found.items():
        if not _is_price(value):
            raise PricesError(f"{where}: {each} is no price", "write a number of 0 or more")
    given = {each: Decimal(value) for each, value in found.items()}
    uncached = given["input"]
    return Price(
        uncached,
        given["output"],
        given.get("cached_input", uncached),
        given.get("cache_write", uncached),
    )


def _is_price(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return False
    amount = Decimal(value)
    return amount.is_finite() and 0 <= amount <= _MOST
