"""Blanks secrets in what the screen shows, copies and saves, by the rules of ``--redact``.

The capture itself is not redacted: the screen can show the secrets again. What was captured with
``--redact`` has none, and nothing brings them back.
"""

import functools
from typing import Any

from sslsniff.redaction.findings import Finding
from sslsniff.redaction.rules import Rules

Object = dict[str, Any]

_BLANK = b"*"
_UNREADABLE = "(not shown: redaction cannot look into it)"


class ViewRedaction:
    """Blanks secrets in objects of ``--json``."""

    def __init__(self) -> None:
        self._rules = Rules(defaults=True)
        self.text = functools.lru_cache(maxsize=4096)(self._text)
        """Returns text with its secrets blanked."""

    def exchange(self, shown: Object) -> Object:
        """Return an ``exchange`` object without secrets."""
        blanked = {**shown}
        for name in ("request", "response"):
            if shown[name] is not None:
                blanked[name] = self._message(shown[name])
        blanked["informational"] = [self._message(each) for each in shown["informational"]]
        if "llm" in shown:
            blanked["llm"] = self._all_texts(shown["llm"])
        if "calls" in shown:
            blanked["calls"] = None  # arguments, which redaction does not look into
        return blanked

    def message(self, shown: Object) -> Object:
        """Return a ``message`` or ``grpc`` object without secrets."""
        blanked = {**shown, "data": self._body(shown["data"], shown["data"])}
        for name in ("fields", "named"):
            if shown.get(name) is not None:
                blanked[name] = None  # they have the same content: the blanked data is shown
        return blanked

    def _message(self, shown: Object) -> Object:
        body = shown["body"]
        blanked = {
            **shown,
            "headers": self._headers(shown["headers"]),
            "trailers": self._headers(shown["trailers"]),
            "body": self._body(body, self._decoded(shown)),
        }
        for name in ("url", "target", "authority"):
            if shown.get(name):
                blanked[name] = self.text(shown[name])
        if "decoded" in body:
            # The content coding is undone in what is shown: redacted bytes cannot be coded again.
            blanked["headers"] = [
                pair for pair in blanked["headers"] if (pair[0] or "").lower() not in _CODED
            ]
        return blanked

    def _decoded(self, shown: Object) -> Object:
        found: Object = shown["body"].get("decoded", shown["body"])
        return found

    def _headers(self, pairs: list[list[str | None]]) -> list[list[str | None]]:
        return [
            [name, value and _blanked(value, self._rules.find_in_header(name, value), "latin-1")]
            for name, value in pairs
        ]

    def _body(self, body: Object, readable: Object) -> Object:
        if not body["size"]:
            return body
        text = self._text(readable["text"]) if "text" in readable else _UNREADABLE
        blanked = {"size": body["size"], "text": text}
        return {**blanked, "truncated": True} if body.get("truncated") else blanked

    def _text(self, text: str) -> str:
        return _blanked(text, self._rules.find(text.encode("utf-8", "replace")), "utf-8")

    def _all_texts(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self._all_texts(each) for each in value]
        if isinstance(value, dict):
            return {name: self._all_texts(each) for name, each in value.items()}
        return value


_CODED = frozenset({"content-encoding", "transfer-encoding"})


def _blanked(text: str, findings: list[Finding], encoding: str) -> str:
    if not findings:
        return text
    data = bytearray(text.encode(encoding, "replace"))
    for begin, end, _ in findings:
        data[begin:end] = _BLANK * (end - begin)
    return data.decode(encoding, "replace")
