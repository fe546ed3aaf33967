"""Parses filter expressions, in mitmproxy's language, into predicates over exchanges.

The grammar, loosest binding first; what is side by side must all match:

    expression = either { either }
    either     = both { "|" both }
    both       = term { "&" term }
    term       = "!" term | "(" expression ")" | operator | regex

A regex is a word without spaces, quotes, parentheses and ``~``, or quoted text. In quotes a
backslash keeps its meaning for the regex; before the quote mark it makes that a part of it.
An operator does not match if what it tests is not known. (mitmproxy 12, "Filter expressions".)
After ``~redacted`` a regex may follow, or nothing.
"""

import argparse
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import AnyStr

from sslsniff.core.errors import FilterError
from sslsniff.core.model import Address, Exchange, Request, Response
from sslsniff.core.process import Process
from sslsniff.core.rpc_calls import shown_call
from sslsniff.core.statements import method_of
from sslsniff.decoders.content import codings
from sslsniff.decoders.messages import Header
from sslsniff.filters.quantities import LEAST, Least

Predicate = Callable[[Exchange], bool]

_MOST_NESTED = 50
_OPERATOR = re.compile(r"~[^\s()~'\"]*")
_QUOTED = re.compile(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"", re.DOTALL)
_WORD = re.compile(r"[^\s()~'\"]+")
_SPACE = re.compile(r"\s*")

_ASSET = re.compile(
    r"text/(javascript|css)|application/(x-)?javascript|image/|font/|application/font",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Filter:
    """A parsed filter expression.

    ``wants_bodies``: whether it tests bodies; ``tests_sql``: texts of statements to databases.
    """

    matches: Predicate
    wants_bodies: bool
    tests_sql: bool = False


def parse(text: str) -> Filter:
    """Parse a filter expression. Raises ``FilterError``, which has the position of the fault."""
    parser = _FilterParser(text)
    matches = parser.whole()
    return Filter(matches, parser.wants_bodies, parser.tests_sql)


def _messages(exchange: Exchange) -> Iterator[Request | Response]:
    """Yield an exchange's request and response, as far as they are known."""
    if exchange.request is not None:
        yield exchange.request
    if exchange.response is not None:
        yield exchange.response


def _request(exchange: Exchange) -> Iterator[Request | Response]:
    return (message for message in _messages(exchange) if message is exchange.request)


def _response(exchange: Exchange) -> Iterator[Request | Response]:
    return (message for message in _messages(exchange) if message is exchange.response)


_Messages = Callable[[Exchange], Iterator[Request | Response]]
_Texts = Callable[[Exchange], Iterable[str]]


def _lines(messages: _Messages) -> _Texts:
    """Return a function that yields headers and trailers as ``name: value``."""
    return lambda exchange: (
        f"{name or ''}: {value or ''}"
        for message in messages(exchange)
        for name, value in (*message.headers, *message.trailers)
    )


def _values(headers: Iterable[Header], wanted: str) -> list[str]:
    return [value for name, value in headers if name and value and name.lower() == wanted]


def _types(messages: _Messages) -> _Texts:
    return lambda exchange: (
        value
        for message in messages(exchange)
        for value in _values(message.headers, "content-type")
    )


def _bodies(messages: _Messages) -> Callable[[Exchange], Iterable[bytes]]:
    """Return a function that yields bodies without their content coding, as far as stored."""

    def bodies(exchange: Exchange) -> Iterator[bytes]:
        for message in messages(exchange):
            decoded = codings.decode(message.body.data, message.headers)
            yield message.body.data if decoded.error else decoded.data

    return bodies


def _domains(exchange: Exchange) -> Iterator[str]:
    if exchange.request is not None and exchange.request.host is not None:
        yield exchange.request.host
    if exchange.connection.sni is not None:
        yield exchange.connection.sni


def _address(address: Address | None) -> Iterable[str]:
    return () if address is None else (f"{address.ip}:{address.port}",)


def _comm(process: Process) -> Iterable[str]:
    return (process.comm,) if process.is_known else ()


def _container(exchange: Exchange) -> Iterable[str]:
    """Return what a container can be found by: its id, its name, and with a pod the whole name."""
    container = exchange.connection.process.container
    if container is None:
        return ()
    whole = (container.namespace, container.pod, container.name)
    return filter(None, (container.id, "/".join(filter(None, whole))))


def _unit(exchange: Exchange) -> Iterable[str]:
    container = exchange.connection.process.container
    return (container.unit,) if container is not None and container.unit is not None else ()


def _models(exchange: Exchange) -> Iterable[str]:
    """Return the model that was asked for, and the one that answered."""
    call = exchange.model_call
    return () if call is None else filter(None, (call.model, call.answered_by))


def _tools(exchange: Exchange) -> Iterable[str]:
    """Return the names of the tools that a model, or a client of MCP, called."""
    call = exchange.model_call
    return () if call is None else [each.name for each in call.tool_calls if each.name]


def _statements(exchange: Exchange) -> Iterable[str]:
    """Return the text of a statement to a database."""
    statement = exchange.statement
    return (statement.text,) if statement is not None and statement.text is not None else ()


def _urls(exchange: Exchange) -> Iterable[str]:
    """Return the URL of a request, the text of a statement, or what is called by JSON-RPC."""
    if exchange.rpc is not None:
        return (shown_call(exchange.rpc, is_whole=True),)
    return _statements(exchange) if exchange.request is None else (exchange.request.url,)


def _has_error(exchange: Exchange) -> bool:
    """Return whether it ended early, or is a statement or a call by JSON-RPC that failed."""
    failed = (exchange.statement, exchange.rpc)
    return exchange.error is not None or any(each and each.error is not None for each in failed)


def _is_answered(exchange: Exchange) -> bool:
    if exchange.statement is not None or exchange.rpc is not None:
        return exchange.first_byte_ns is not None
    return exchange.response is not None


def _secrets(exchange: Exchange) -> Iterator[str]:
    """Yield by what the secrets can be found that were blanked in an exchange."""
    for secret in exchange.redacted or ():
        yield secret.name
        yield secret.where
        if secret.pattern is not None:
            yield secret.pattern
        if secret.fingerprint is not None:
            yield f"#{secret.fingerprint}"


_FLAGS: dict[str, Predicate] = {
    "a": lambda exchange: any(map(_ASSET.search, _types(_response)(exchange))),
    "all": lambda exchange: True,
    "e": _has_error,
    "http": lambda exchange: True,
    "q": lambda exchange: not _is_answered(exchange),
    "redacted": lambda exchange: exchange.redacted is not None,
    "s": lambda exchange: _is_answered(exchange),
    "websocket": lambda exchange: exchange.is_websocket,
}
_TEXTS: dict[str, _Texts] = {
    "comm": lambda exchange: _comm(exchange.connection.process),
    "container": _container,
    "d": _domains,
    "dst": lambda exchange: _address(exchange.connection.server),
    "h": _lines(_messages),
    "hq": _lines(_request),
    "hs": _lines(_response),
    "m": lambda exchange: (method_of(exchange) or "",),
    "model": _models,
    "proto": lambda exchange: (exchange.protocol,),
    "redacted": _secrets,
    "sql": _statements,
    "src": lambda exchange: _address(exchange.connection.client),
    "t": _types(_messages),
    "tq": _types(_request),
    "tool": _tools,
    "ts": _types(_response),
    "unit": _unit,
    "u": _urls,
}
_BODIES: dict[str, Callable[[Exchange], Iterable[bytes]]] = {
    "b": _bodies(_messages),
    "bq": _bodies(_request),
    "bs": _bodies(_response),
}
_NUMBERS: dict[str, Callable[[Exchange], int | None]] = {
    "c": lambda exchange: exchange.response.status if exchange.response is not None else None,
    "pid": lambda exchange: exchange.connection.process.pid or None,
}
OPERATORS = tuple(sorted({*_FLAGS, *_TEXTS, *_BODIES, *_NUMBERS, *LEAST}))


class _FilterParser:
    """A recursive descent over the grammar above: one method for each rule."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self.wants_bodies = self.tests_sql = False

    def whole(self) -> Predicate:
        predicate = self._expression()
        if self._at < len(self._text):
            raise self._error("nothing is open that ) could close", "remove it")
        return predicate

    def _expression(self) -> Predicate:
        parts = [self._either()]
        while self._next_character() not in ("", ")"):
            parts.append(self._either())
        return _all(parts)

    def _either(self) -> Predicate:
        parts = [self._both()]
        while self._accept("|"):
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else lambda exchange: any(p(exchange) for p in parts)

    def _both(self) -> Predicate:
        parts = [self._term()]
        while self._accept("&"):
            parts.append(self._term())
        return _all(parts)

    def _term(self) -> Predicate:
        start = self._next_character()
        self._depth += 1
        if self._depth > _MOST_NESTED:
            raise self._error("nested too deeply", f"use at most {_MOST_NESTED} levels")
        if self._accept("!"):
            negated = self._term()
            predicate: Predicate = lambda exchange: not negated(exchange)  # noqa: E731
        elif start == "(":
            predicate = self._group()
        elif start == "~":
            predicate = self._operator()
        elif start in ("", ")", "&", "|"):
            raise self._error("an operator or a regex is missing here", "such as ~m POST")
        else:
            predicate = self._search(_TEXTS["u"])
        self._depth -= 1
        return predicate

    def _group(self) -> Predicate:
        opened = self._at
        self._accept("(")
        predicate = self._expression()
        if not self._accept(")"):
            raise self._error("this ( is never closed", "close it with )", opened)
        return predicate

    def _operator(self) -> Predicate:
        found = _OPERATOR.match(self._text, self._at)
        assert found is not None
        name = found[0][1:]
        if name in _FLAGS and not (name in _TEXTS and self._has_argument(found.end())):
            self._at = found.end()
            return _FLAGS[name]
        if name not in OPERATORS:
            known = " ".join(f"~{each}" for each in OPERATORS)
            raise self._error(f"there is no operator ~{name}", f"take one of {known}")
        self._at = found.end()
        self.tests_sql |= name == "sql"
        if name in _NUMBERS:
            return self._equals(name)
        if name in LEAST:
            return self._at_least(name, LEAST[name])
        if name in _BODIES:
            self.wants_bodies = True
            return self._search_bytes(_BODIES[name])
        return self._search(_TEXTS[name])

    def _has_argument(self, at: int) -> bool:
        """Return whether a regex is at ``at``, after an operator that needs none."""
        rest = self._text[at:].lstrip()
        return rest != "" and rest[0] not in "&|!()~"

    def _equals(self, name: str) -> Predicate:
        argument, at = self._argument(f"~{name} needs a number", f"such as ~{name} 404")
        if not (argument.isascii() and argument.isdecimal() and len(argument) < 20):
            raise self._error(f"~{name} takes a number", f"such as ~{name} 404", at)
        wanted, number = int(argument), _NUMBERS[name]
        return lambda exchange: number(exchange) == wanted

    def _at_least(self, name: str, least: Least) -> Predicate:
        example = f"such as ~{name} {least.example}"
        argument, at = self._argument(f"~{name} needs {least.kind}", example)
        try:
            wanted = least.parse(argument)
        except argparse.ArgumentTypeError:
            raise self._error(f"~{name} takes {least.kind}", example, at) from None

        def matches(exchange: Exchange) -> bool:
            value = least.value_of(exchange)
            return value is not None and value >= wanted

        return matches

    def _search(self, texts: _Texts) -> Predicate:
        argument, at = self._argument("a regex is missing here", "quote it if it has spaces")
        search = self._compiled(argument, at, re.IGNORECASE).search
        return lambda exchange: any(map(search, texts(exchange)))

    def _search_bytes(self, bodies: Callable[[Exchange], Iterable[bytes]]) -> Predicate:
        argument, at = self._argument("a regex is missing here", "quote it if it has spaces")
        # Bytes, as in mitmproxy: a body need not be text.
        flags = re.IGNORECASE | re.DOTALL
        search = self._compiled(argument.encode(errors="surrogateescape"), at, flags).search
        return lambda exchange: any(map(search, bodies(exchange)))

    def _compiled(self, regex: AnyStr, at: int, flags: int) -> re.Pattern[AnyStr]:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter(
                    "ignore"
                )  # on regexes whose meaning may change in a later Python
                return re.compile(regex, flags)
        except re.error as error:
            place = at + (error.pos or 0)
            raise self._error(f"wrong regex, {error.msg}", "see Python's re", place) from None
        except (OverflowError, RecursionError):
            raise self._error("a regex that is too large", "make it simpler", at) from None

    def _argument(self, missing: str, remedy: str) -> tuple[str, int]:
        """Read a word or quoted text; return it, and its position."""
        mark = self._next_character()
        at = self._at
        if mark in ("'", '"'):
            quoted = _QUOTED.match(self._text, at)
            if quoted is None:
                raise self._error(f"this {mark} is never closed", "close it", at)
            self._at = quoted.end()
            return quoted[0][1:-1].replace("\\" + mark, mark), at + 1
        word = _WORD.match(self._text, at)
        if word is None:
            raise self._error(missing, remedy)
        if word[0][-1] in "&|":  # valid in a regex, but most likely an operator
            raise self._error(
                "a space is missing before this", "or quote the regex", word.end() - 1
            )
        self._at = word.end()
        return word[0], at

    def _next_character(self) -> str:
        """Skip spaces; return the next character, nothing at the end."""
        space = _SPACE.match(self._text, self._at)
        assert space is not None
        self._at = space.end()
        return self._text[self._at : self._at + 1]

    def _accept(self, mark: str) -> bool:
        found = self._next_character() == mark
        self._at += found
        return found

    def _error(self, fact: str, remedy: str, position: int | None = None) -> FilterError:
        place = self._at if position is None else position
        return FilterError(f"wrong filter: {fact}", remedy, self._text, place)


def _all(parts: list[Predicate]) -> Predicate:
    return parts[0] if len(parts) == 1 else lambda exchange: all(p(exchange) for p in parts)
