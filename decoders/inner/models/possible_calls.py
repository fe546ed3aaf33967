"""Tells quickly which requests are no model calls; nearly all are not."""

import re

from sslsniff.decoders.messages import Headers, RequestHead, cached_in_headers

_JSON = re.compile(r"\s*application/json\s*(;|$)", re.IGNORECASE)


def may_be_model_call(head: RequestHead) -> bool:
    """Return whether a request may be a model call: it posts JSON."""
    return head.method == "POST" and is_json(head.headers)


@cached_in_headers
def is_json(headers: Headers) -> bool:
    """Return whether headers say that the body is a JSON document."""
    return _JSON.match(headers.first("content-type") or "") is not None
