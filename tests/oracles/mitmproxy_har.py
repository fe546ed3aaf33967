"""Reads a HAR file with mitmproxy, and tells as JSON what it saw in it."""

import base64
import json
import sys
from pathlib import Path
from typing import Any

from mitmproxy import http, io


def half(message: http.Message) -> dict[str, Any]:
    return {
        "headers": [
            [name.decode(), value.decode()]
            for name, value in message.headers.fields
            if name != b"content-length"  # which mitmproxy adds
        ],
        "body": base64.b64encode(message.get_content(strict=False) or b"").decode(),
    }


with Path(sys.argv[1]).open("rb") as file:
    flows = list(io.FlowReader(file).stream())
json.dump(
    [
        {
            "method": flow.request.method,
            "url": flow.request.url,
            "version": flow.request.http_version,
            "request": half(flow.request),
            "status": flow.response.status_code,
            "response": half(flow.response),
            "server": flow.server_conn.address,
            "started": flow.request.timestamp_start,
        }
        for flow in flows
    ],
    sys.stdout,
)
