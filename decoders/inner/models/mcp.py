"""The Model Context Protocol over HTTP: JSON-RPC requests, answered by JSON or events.

https://modelcontextprotocol.io/specification, "Streamable HTTP".
"""

from sslsniff.decoders.inner.models.json_values import (
    Object,
    as_json,
    at,
    error_text,
    objects,
    text,
)
from sslsniff.decoders.inner.models.model_call import ModelCall


def read_request(call: ModelCall, document: Object) -> None:
    """Read a request: its method and, of ``tools/call``, the tool. Raises ``ValueError``."""
    call.method = text(document, "method")
    if document.get("jsonrpc") != "2.0" or call.method is None:
        raise ValueError("no request of JSON-RPC 2.0")
    if isinstance(number := document.get("id"), int | str):
        call.id = str(number)
    if call.method == "tools/call":
        name = text(document, "params", "name")
        call.add_tool_call(None, None, name, as_json(at(document, "params", "arguments")))


def read_answer(call: ModelCall, document: Object) -> None:
    """Read a message: the answer has the request's id, others are the server's notifications."""
    if "id" not in document or str(document["id"]) != call.id or "method" in document:
        return
    call.is_complete = True
    call.error = error_text(document) or call.error
    for part in objects(document, "result", "content"):
        call.add_text(text(part, "text") or "")
    if at(document, "result", "isError") is True:
        call.error = call.error or "the tool failed"
    for tool in objects(document, "result", "tools"):
        call.tools += filter(None, [text(tool, "name")])
