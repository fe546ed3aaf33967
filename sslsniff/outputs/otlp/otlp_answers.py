"""Judges the answers of OTLP receivers: the SDK takes every status below 400 for a success.

A receiver that took what was sent answers with status 200 and an Export...ServiceResponse, which
may be empty (the OTLP specification, "OTLP/HTTP Response"). It may say that it rejected some items;
these are never sent again ("Partial Success").
"""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

_PROTOBUF, _JSON = "application/x-protobuf", "application/json"


class Rejected(NamedTuple):
    """How many items a receiver rejected, and why."""

    items: int
    reason: str


class NotAcceptedError(Exception):
    """The answer is not that of a receiver which took what was sent."""


class Answers:
    """What was rejected of one kind of items.

    ``response``: makes the message of the answer. ``rejected``: its field that counts the items.
    """

    def __init__(self, response: Callable[[], Any], rejected: str) -> None:
        self._response = response
        self._field = rejected
        self._rejected = Rejected(0, "")

    def pop(self) -> Rejected:
        """Return what was rejected since the last call."""
        rejected, self._rejected = self._rejected, Rejected(0, "")
        return rejected

    def note(self, response: Any) -> None:
        """Note what an answer says."""
        partial = response.partial_success
        count = getattr(partial, self._field)
        if count > 0:
            reason = partial.error_message.partition("\n")[0] or "no reason given"
            self._rejected = Rejected(self._rejected.items + count, reason)

    def read(self, kind: str, body: bytes) -> None:
        """Read the body of an HTTP answer with a content type; raise ``ValueError`` if it is none.

        Protobuf's ``DecodeError`` is one, too.
        """
        from google.protobuf.json_format import ParseDict
        from google.protobuf.message import DecodeError

        response = self._response()
        if kind == _JSON:
            ParseDict(json.loads(body or b"{}"), response, ignore_unknown_fields=True)
        elif kind == _PROTOBUF or not (kind or body):
            try:
                response.ParseFromString(body)
            except DecodeError as error:
                raise ValueError(str(error)) from error
        else:
            raise ValueError
        self.note(response)
