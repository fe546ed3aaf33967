"""Tells quickly which requests are no model calls; nearly all are not."""

import re

from sslsniff.decoders.messages import Headers, RequestHead, cached_in_headers

_JSON = re.compile(r"\s*application/json\s*(;|$)", re.IGNORECASE)
_PATH_END = re.compile(
    r"(?:/completions|/responses|/messages|enerateContent|/api/chat|/api/generate)(?:\?|$)"
)
"""The ends of the paths in ``model_apis``."""


def may_be_model_call(head: RequestHead) -> bool:
    """Return whether a request may be a call: it posts JSON to a path that fits, or as MCP."""
    return (
        head.method == "POST"
        and is_json(head.headers)
        and (_PATH_END.search(head.target or "") is not None or may_be_mcp(head.headers))
    )


@cached_in_headers
def may_be_mcp(headers: Headers) -> bool:
    """Return whether headers accept what clients of MCP must accept."""
    accepted = (headers.first("accept") or "").lower()
    return "application/json" in accepted and "text/event-stream" in accepted


@cached_in_headers
def is_json(headers: Headers) -> bool:
    """Return whether headers say that the body is a JSON document."""
    return _JSON.match(headers.first("content-type") or "") is not None
