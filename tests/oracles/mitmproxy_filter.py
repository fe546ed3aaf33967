"""mitmproxy's verdict: reads {"exchanges": [...], "expressions": [...]} as JSON, the exchanges in
the form of ``sslsniff --json``, and writes for each expression which of them it lets through."""

import base64
import json
import re
import sys
from typing import Any

from mitmproxy import connection, flow, flowfilter, http

# Since mitmproxy 12 all regexes ignore case, as docs.mitmproxy.org/stable/concepts/filters says.
for action in flowfilter.filter_rex:
    action.flags |= re.IGNORECASE


def body(shown: dict[str, str]) -> bytes:
    return shown["text"].encode() if "text" in shown else base64.b64decode(shown["base64"])


def headers(pairs: list[tuple[str, str]]) -> http.Headers:
    return http.Headers([(name.encode(), value.encode()) for name, value in pairs])


def as_flow(exchange: dict[str, Any]) -> http.HTTPFlow:
    client, server = exchange["client"], exchange["server"]
    made = http.HTTPFlow(
        connection.Client(peername=(client["ip"], client["port"]), sockname=("", 0)),
        connection.Server(address=(server["ip"], server["port"])),
    )
    asked, answered = exchange["request"], exchange["response"]
    made.request = http.Request.make(
        asked["method"],
        f"{asked['scheme']}://{asked['authority']}{asked['target']}",
        b"",
        headers(asked["headers"]),
    )
    made.request.raw_content = body(asked["body"])
    if answered:
        made.response = http.Response.make(answered["status"], b"", headers(answered["headers"]))
        made.response.headers = headers(answered["headers"])
        made.response.raw_content = body(answered["body"])
    if exchange["error"]:
        made.error = flow.Error(exchange["error"])
    return made


# Or parentheses take time that doubles with each.
flowfilter.pp.ParserElement.enable_packrat()

given = json.load(sys.stdin)
flows = [as_flow(exchange) for exchange in given["exchanges"]]
verdicts = {}
for text in given["expressions"]:
    matches = flowfilter.parse(text)
    verdicts[text] = [bool(matches(each)) for each in flows]
json.dump(verdicts, sys.stdout)
