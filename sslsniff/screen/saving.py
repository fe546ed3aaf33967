"""Copies and saves exchanges: as a curl command, JSON lines, HAR, or a capture for Wireshark."""

import os
import re
import shlex
import shutil
import subprocess
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from sslsniff.core.errors import OutputError, counted
from sslsniff.core.escaping import escape_lines
from sslsniff.destinations.output_files import check_output, open_output
from sslsniff.forms.json.encoded_json import encoded_json
from sslsniff.kernel import privileges
from sslsniff.screen.captured.capture_process import PREFIX, own_command
from sslsniff.screen.captured.rebuilt_exchanges import data_of, exchange_of

Object = dict[str, Any]

Saved = tuple[Object, str]
"""The object of an exchange, and the name in its connection's handshake (SNI)."""

_CAPTURES = (".pcapng", ".pcap")
_SUFFIXES = (*_CAPTURES, ".har", ".json", ".jsonl")
_OWN_HEADERS = frozenset({"host", "content-length", "transfer-encoding", "connection"})
"""curl makes these itself."""
_MOST_CONNECTIONS = 500
"""In one saved capture: more would not fit on a command line."""
_SAVED_WITHIN_S = 120
_NOT_STORED = "a screen does not store the bytes of connections"
_SHOWN = re.compile(r"(\d+) shown of ")


def curl_command(shown: Object) -> str:
    """Return a command that sends the request of an ``exchange`` object again.

    Raises ``OutputError`` if the request is not known as a whole.
    """
    request = shown["request"]
    if request is None or request["method"] is None or "?" in (request["target"] or "?")[:1]:
        raise OutputError("the request was not seen as a whole", "choose another exchange")
    if any(None in pair for pair in request["headers"]):
        raise OutputError("a header of the request is not known", "choose another exchange")
    body = request["body"]
    if body.get("truncated"):
        raise OutputError(
            "the body of the request is not whole", "capture with a larger --max-body"
        )
    parts = ["curl", "--http2" if shown["protocol"] == "http/2" else "--http1.1"]
    method = request["method"]
    if method == "HEAD":
        parts.append("--head")
    elif method != ("POST" if body["size"] else "GET"):
        parts += ["-X", method]
    headers = request["headers"]
    if body["size"] and not any(name.lower() == "content-type" for name, _ in headers):
        headers = [*headers, ["content-type", None]]  # without a value curl sends none
    for name, value in headers:
        if name.lower() not in _OWN_HEADERS:
            parts += ["-H", f"{name};" if value == "" else f"{name}: {value or ''}".rstrip()]
    before = ""
    if body["size"] and escape_lines(body.get("text", "\0")) == body.get("text"):
        parts += ["--data-raw", body["text"]]
    elif body["size"]:
        before = f"printf '{''.join(f'{chr(92)}{byte:03o}' for byte in data_of(body))}' | "
        parts += ["--data-binary", "@-"]
    command = before + shlex.join([*parts, request["url"]])
    if escape_lines(command) != command:
        raise OutputError("the request has control characters", "save it as JSON instead")
    return command


def save(path: str, rows: Sequence[Saved], source: str | None, *, redacts: bool) -> str:
    """Save exchanges in the form that ``path`` names; return a line that says what was saved.

    ``source``: a capture file that has them, if there is one. ``redacts``: whether the objects are
    redacted; a capture then is, too. Raises ``OutputError``.
    """
    suffix = suffix_of(path)
    if suffix in _CAPTURES:
        if source is None:
            raise OutputError(_NOT_STORED, "save it as .har or .json, or start with --pcap FILE")
        count = _save_capture(source, path, [shown for shown, _ in rows], redacts=redacts)
        what = f"connections with {counted(count, 'exchange')}"
    else:
        (_save_har if suffix == ".har" else _save_json)(path, rows)
        what = counted(len(rows), "exchange")
    return f"saved {what} in {path}"


def _save_json(path: str, rows: Iterable[Saved]) -> None:
    with open_output(path) as file:
        for shown, _ in rows:
            file.write(encoded_json(shown) + b"\n")


def _save_har(path: str, rows: Iterable[Saved]) -> None:
    from sslsniff.outputs.har.archive import HarSink

    with open_output(path) as file:
        sink = HarSink(file)
        for shown, sni in rows:
            exchange = exchange_of(shown, sni)
            sink.exchange(exchange)
            sink.closed(exchange.connection, 0)
        sink.close()


def _save_capture(source: str, path: str, objects: Sequence[Object], *, redacts: bool) -> int:
    """Write the connections of exchanges from ``source``; return how many exchanges they have."""
    check_output(path)
    options = ["--redact"] if redacts else []
    command = own_command(["read", source, _of_connections(objects), "--pcap", path, *options])
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_SAVED_WITHIN_S,
    )
    said = done.stderr.strip().splitlines()
    if done.returncode:
        raise OutputError((said or ["it failed"])[0].removeprefix(PREFIX), "save it as HAR or JSON")
    found = _SHOWN.search(done.stderr)
    if found is None or found[1] == "0":
        Path(path).unlink(missing_ok=True)
        raise OutputError("their bytes were not captured", "save them as HAR or JSON")
    return int(found[1])


def _of_connections(objects: Sequence[Object]) -> str:
    """Return a filter expression that matches the connections of exchanges, by their addresses."""
    pairs = {
        tuple(f"{shown[end]['ip']}:{shown[end]['port']}" for end in ("client", "server"))
        for shown in objects
        if shown["client"] and shown["server"]
    }
    if not pairs:
        raise OutputError("the addresses of the connection are not known", "save it as HAR or JSON")
    if len(pairs) > _MOST_CONNECTIONS:
        raise OutputError(
            f"they are on {len(pairs)} connections",
            f"mark exchanges of {_MOST_CONNECTIONS} at most",
        )
    return " | ".join(
        f"(~src '^{re.escape(client)}$' & ~dst '^{re.escape(server)}$')"
        for client, server in sorted(pairs)
    )


def find_wireshark() -> str:
    """Return where Wireshark is. Raises ``OutputError``."""
    program = shutil.which("wireshark")
    if program is None:
        raise OutputError("wireshark is not installed here", "save a .pcapng and open it elsewhere")
    return program


def start_wireshark(program: str, path: str) -> None:
    """Open a capture in Wireshark, for the user who called sudo if there is one."""
    caller = privileges.caller()
    if caller is not None:
        os.chown(Path(path).parent, *caller)
    started = subprocess.Popen(
        [program, path],
        user=caller and caller[0],
        group=caller and caller[1],
        extra_groups=[] if caller is not None else None,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    threading.Thread(target=started.wait, daemon=True).start()  # it may outlive the screen


def check_name(path: str) -> None:
    """Raise the ``OutputError`` that ``save`` would raise for the name of the file."""
    suffix_of(path)
    check_output(path)


def suffix_of(path: str) -> str:
    """Return which form a file gets, by its name. Raises ``OutputError``."""
    found = Path(path).suffix.lower()
    if found not in _SUFFIXES:
        raise OutputError(f"{path!r} does not say its form", f"end it in {', '.join(_SUFFIXES)}")
    return found
