"""Turns calls by JSON-RPC into the object of docs/json.md, and into text for a line."""

from collections.abc import Iterator
from typing import Any

from sslsniff.core.errors import counted
from sslsniff.core.statements import FAILED, OK
from sslsniff.decoders.json_rpc.rpc_call import RpcCall

Object = dict[str, Any]


def rpc_object(call: RpcCall) -> Object:
    """Return the ``rpc`` object of an exchange that is a call."""
    return {
        "method": call.method,
        "id": call.id,
        "by_server": call.by_server,
        "name": call.name,
        "parameters": call.parameters,
        "request_bytes": call.request_bytes,
        "result": call.result,
        "response_bytes": call.response_bytes,
        "error": call.error,
        "code": call.code,
        "progress": call.progress,
        "cancelled": call.cancelled,
        "incomplete": call.fault,
    }


def rpc_of(shown: Object, protocol: str) -> RpcCall:
    """Return the call of an ``rpc`` object, on an exchange of ``protocol``."""
    fields = {name: value for name, value in shown.items() if name != "incomplete"}
    return RpcCall(protocol, **fields, fault=shown["incomplete"])


def status_of(call: RpcCall, error: str | None, *, is_answered: bool) -> str | None:
    """Return ``OK`` or ``FAILED``; None if it was not answered.

    ``error``: why its exchange ended early, None if it did not.
    """
    if call.error is not None:
        return FAILED
    return OK if is_answered and error is None else None


def shown_call(call: RpcCall, *, is_whole: bool = False) -> str:
    """Return what a line has in place of a URL: what is called; if ``is_whole``, with what."""
    parameters = call.parameters if is_whole else None
    return "  ".join(filter(None, (call.name, parameters)))


def remarks(call: RpcCall) -> Iterator[str]:
    """Yield what a line says of a call that is no failure, not escaped."""
    if call.by_server:
        yield "asked by the server"
    if call.progress:
        yield counted(call.progress, "report of progress", "reports of progress")


def failure(call: RpcCall) -> str | None:
    """Return what the answer says of a failure, not escaped; None if there is none."""
    if call.error is None or call.code is None:
        return call.error
    return f"{call.code}: {call.error}"
