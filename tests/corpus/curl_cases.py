"""Reads curl's test cases: what a server replies, what curl asks, what curl makes of it.

The format is described in curl's ``docs/tests/FILEFORMAT.md``; which reply belongs to which
request is the rule of its test server (``tests/server/sws.c``).
"""

import base64
import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

_VARIABLES = {
    "CLIENTIP": "127.0.0.1",
    "HOSTIP": "127.0.0.1",
    "HOST6IP": "[::1]",
    "HTTPPORT": "8990",
    "HTTP6PORT": "8991",
    "HTTPSPORT": "8992",
    "PROXYPORT": "8993",
    "HTTPSPROXYPORT": "8994",
    "NOLISTENPORT": "47",
    "FTPPORT": "21",
    "PWD": "/tests",
    "SRCDIR": "/tests",
    "LOGDIR": "log",
    "USER": "user",
    "VERSION": "8.0.0",
}
_CHARACTERS = {"CR": "\r", "LF": "\n", "TAB": "\t", "SP": " ", "AMP": "&", "GT": ">"}

_SECTION = re.compile(
    r"<((?:data|datacheck|connect)\d*|protocol)((?: [^>]*)?)>\n(.*?)</\1>", re.DOTALL
)
_INCLUDE = re.compile(r"^%includetext %SRCDIR/data/([\w.-]+)%\n", re.MULTILINE)
_IF = re.compile(r"^%if [^\n]*\n(.*?)(?:^%else\n.*?)?^%endif\n", re.DOTALL | re.MULTILINE)
_REPLY_HEAD = re.compile(rb"HTTP/[^\n]*\n(?:[^\r\n][^\n]*\n)*\r?\n")
_REQUEST_LINE = re.compile(rb"^([A-Za-z]+) (\S+) HTTP/1\.[01]\r?$", re.MULTILINE)
# What the test server adds to a part's number, by what the request brings.
_AUTHORIZATION = (
    (b"Authorization: NTLM TlRMTVNTUAAB", 1001),
    (b"Authorization: NTLM TlRMTVNTUAAD", 1002),
    (b"Authorization: Digest", 1000),
)


@dataclass
class Case:
    """``replies`` by the name of their section, ``requests`` in order, ``shown`` by curl."""

    replies: dict[str, bytes]
    requests: list[bytes]
    shown: bytes | None

    def reply_to(self, request: bytes) -> bytes | None:
        """Return what the test server replies; None if the case does not say."""
        found = _REQUEST_LINE.match(request)
        assert found is not None
        kind = "connect" if found[1] == b"CONNECT" else "data"
        numbers = re.findall(rb"\d+", found[2].split(b"?")[0])
        part = max((int(n) % 10000 for n in numbers if int(n) > 10000), default=0)
        part += next((add for text, add in _AUTHORIZATION if text in request), 0)
        return self.replies.get(f"{kind}{part or ''}")


def heads(reply: bytes) -> tuple[list[bytes], bytes]:
    """Part a reply into its heads and what is after them."""
    found = []
    while head := _REPLY_HEAD.match(reply):
        found.append(head[0])
        reply = reply[head.end() :]
        if not re.match(rb"HTTP/\S+ (?:1|200 Connection)", head[0]):
            break
    return found, reply


def read(path: Path) -> Case | None:
    """Read a case; None if it has no reply in HTTP/1 that can be expanded."""
    text = path.read_text("latin-1")
    text = _INCLUDE.sub(lambda found: (path.parent / found[1]).read_text("latin-1"), text)
    sections = {}
    for name, attributes, raw in _SECTION.findall(_IF.sub(r"\1", text)):
        expanded = _expand(raw, path.name.removeprefix("test"), attributes)
        if expanded is not None:
            sections[name] = (attributes, expanded)
    replies = {
        name: raw
        for name, (_, raw) in sections.items()
        if name.startswith(("data", "connect")) and "check" not in name and raw[:7] == b"HTTP/1."
    }
    if not replies:
        return None
    _, asked = sections.get("protocol", ("", b""))
    asked = asked.replace(b"[DISCONNECT]\n", b"")
    starts = [found.start() for found in _REQUEST_LINE.finditer(asked)]
    requests = [asked[a:b] for a, b in pairwise([*starts, len(asked)])]
    checked = sections.get("datacheck", sections.get("data", ("nocheck", b"")))
    return Case(replies, requests, None if "nocheck" in checked[0] else checked[1])


def _expand(text: str, number: str, attributes: str) -> bytes | None:
    """Expand the variables of a section; None where one is not known here."""
    for name, value in {**_CHARACTERS, **_VARIABLES, "TESTNUMBER": number}.items():
        text = text.replace(f"%{name}", value)
    raw = text.encode("latin-1")
    raw = re.sub(rb"%hex\[(.*?)\]hex%", lambda m: _percent(m[1]), raw, flags=re.DOTALL)
    raw = re.sub(
        rb"%b64\[(.*?)\]b64%", lambda m: base64.b64encode(_percent(m[1])), raw, flags=re.DOTALL
    )
    raw = re.sub(rb"%repeat\[(\d+) x (.*?)\]%", lambda m: _percent(m[2]) * int(m[1]), raw)
    if re.search(rb"%[A-Z]{3,}|%\w+\[", raw):
        return None
    if 'base64="yes"' in attributes:
        raw = base64.b64decode(raw)
    if 'nonewline="yes"' in attributes:
        raw = raw.removesuffix(b"\n")
    if 'crlf="yes"' in attributes:
        raw = re.sub(rb"\r?\n", b"\r\n", raw)
    if 'crlf="headers"' in attributes:
        raw = _end_head_lines(raw)
    return raw


def _end_head_lines(raw: bytes) -> bytes:
    lines = raw.split(b"\n")
    in_head = False
    for at, line in enumerate(lines[:-1]):
        in_head = in_head or bool(re.match(rb"HTTP/|[A-Z]+ .* HTTP/1", line))
        if in_head:
            lines[at] = line.removesuffix(b"\r") + b"\r"
        in_head = in_head and line.rstrip(b"\r") != b""
    return b"\n".join(lines)


def _percent(raw: bytes) -> bytes:
    return re.sub(rb"%([0-9a-fA-F]{2})", lambda m: bytes([int(m[1], 16)]), raw)
