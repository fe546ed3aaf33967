"""A server of the Model Context Protocol on standard input and output, by hand.

    python stdio_server.py [NAME]

It prints a line of a log first. Tools: ``repeat`` (a text, a number of times), ``fail``, ``die``
(ends the process without an answer), ``name`` (its own), ``read_file`` and ``run_sql`` (which take
so many seconds). Others are unknown. It ends with its input.
"""

import json
import os
import sys
import time
from typing import Any

UNKNOWN = -32602


def answer(name: str, message: dict[str, Any]) -> dict[str, Any] | None:
    """Return the answer to a message; None: it has none."""
    if "id" not in message:
        return None
    head = {"jsonrpc": "2.0", "id": message["id"]}
    if message["method"] != "tools/call":
        return {**head, "result": {}}
    tool, arguments = message["params"]["name"], message["params"]["arguments"]
    if tool == "die":
        os._exit(1)
    if tool == "fail":
        text = {"type": "text", "text": "no such file"}
        return {**head, "result": {"content": [text], "isError": True}}
    if tool == "repeat":
        shown = arguments["text"] * arguments["times"]
    elif tool == "name":
        shown = name
    elif tool in {"read_file", "run_sql"}:
        time.sleep(arguments["seconds"])
        shown = f"the result of {tool}"
    else:
        return {**head, "error": {"code": UNKNOWN, "message": f"no tool {tool}"}}
    return {**head, "result": {"content": [{"type": "text", "text": shown}]}}


def main() -> None:
    """Serve."""
    [name] = sys.argv[1:] or ["server"]
    print(f"{name} is ready", flush=True)
    for line in sys.stdin:
        answered = answer(name, json.loads(line))
        if answered is not None:
            print(json.dumps(answered), flush=True)


if __name__ == "__main__":
    main()
