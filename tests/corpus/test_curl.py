"""curl's own test cases: server replies with oddities, and the body that curl makes of them.

Only cases with one HTTP reply on one connection are taken; what curl's command line makes of
a body (ranges, retries, ``--include``) is not the decoder's matter, so of the expected
output only what stands behind the last head counts.
"""

import base64
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from sslsniff.decoders import content
from sslsniff.decoders.http1 import Http1
from sslsniff.decoders.messages import BodyData, Message, ResponseHead
from tests.corpus.conftest import corpus
from tests.corpus.differences import CURL
from tests.unit.decoders.wires import END, C, S, run

FOLDER = corpus("curl")

_SECTION = re.compile(r"<(data|datacheck)((?: [^>]*)?)>\n(.*?)</\1>\n", re.DOTALL)
_REPLY = re.compile(r"<reply>\n(.*?)</reply>", re.DOTALL)
_COMMAND = re.compile(r"<command[^>]*>\n(.*?)</command>", re.DOTALL)
_SERVERS = re.compile(r"<server>\n(.*?)</server>", re.DOTALL)
_CHARACTERS = {"%CR": "\r", "%LF": "\n", "%TAB": "\t", "%SP": " ", "%AMP": "&", "%GT": ">"}
_METHOD = re.compile(r"(?:^|\s)(?:-X|--request)[ =]?(\S+)")
_HEAD = re.compile(r"(?:^|\s)(?:-I|--head)\b")


@dataclass
class Case:
    method: str
    wire: bytes
    body: bytes


def expand(text: str) -> bytes | None:
    """Expand the variables of a section; None where one is not known here."""
    raw = text.encode("latin-1", "replace")
    for name, value in _CHARACTERS.items():
        raw = raw.replace(name.encode(), value.encode())
    raw = re.sub(rb"%hex\[(.*?)\]hex%", lambda m: percent(m[1]), raw, flags=re.DOTALL)
    raw = re.sub(
        rb"%b64\[(.*?)\]b64%", lambda m: base64.b64encode(percent(m[1])), raw, flags=re.DOTALL
    )
    raw = re.sub(rb"%repeat\[(\d+) x (.*?)\]%", lambda m: percent(m[2]) * int(m[1]), raw)
    return None if re.search(rb"%[A-Za-z]\w*[\[%]?", raw) else raw


def percent(raw: bytes) -> bytes:
    return re.sub(rb"%([0-9a-fA-F]{2})", lambda m: bytes([int(m[1], 16)]), raw)


def section(attributes: str, text: str) -> bytes | None:
    raw = expand(text)
    if raw is None:
        return None
    if 'base64="yes"' in attributes:
        raw = base64.b64decode(raw)
    if 'nonewline="yes"' in attributes:
        raw = raw.removesuffix(b"\n")
    if 'crlf="yes"' in attributes:
        raw = re.sub(rb"\r?\n", b"\r\n", raw)
    if 'crlf="headers"' in attributes:
        lines = raw.split(b"\n")
        in_head = False
        for at, line in enumerate(lines[:-1]):
            in_head = in_head or line.startswith(b"HTTP/")
            if in_head:
                lines[at] = line.removesuffix(b"\r") + b"\r"
            in_head = in_head and line.rstrip(b"\r") != b""
        raw = b"\n".join(lines)
    return raw


def behind_heads(raw: bytes) -> bytes:
    """Return what is behind the last head that ``raw`` begins with."""
    while raw.startswith(b"HTTP/"):
        end = re.search(rb"\n\r?\n", raw)
        raw = raw[end.end() :] if end else b""
    return raw


def read(path: Path) -> Case | None:
    text = path.read_text("latin-1")
    reply, command = _REPLY.search(text), _COMMAND.search(text)
    servers = _SERVERS.search(text)
    if not reply or not command or not servers or servers[1].split() not in (["http"], ["https"]):
        return None
    # More than one reply belongs to more than one request.
    if re.search(r"<(data|connect)\d|<connect|<servercmd>", reply[1]) or "%if" in reply[1]:
        return None
    sections = {name: (attributes, body) for name, attributes, body in _SECTION.findall(reply[1])}
    if "data" not in sections or "nocheck" in sections["data"][0]:
        return None
    wire = section(*sections["data"])
    shown = section(*sections.get("datacheck", sections["data"]))
    if wire is None or shown is None or not wire.startswith(b"HTTP/"):
        return None
    words = command[1]
    method = "HEAD" if _HEAD.search(words) else "GET"
    named = _METHOD.search(words)
    return Case(named[1] if named else method, wire, behind_heads(shown))


def load() -> dict[str, Case]:
    found = {path.name: read(path) for path in sorted(FOLDER.glob("test*"))}
    return {name: case for name, case in found.items() if case is not None}


CASES = load()


def decode(case: Case, size: int) -> tuple[bytes, list[Message]]:
    ask = f"{case.method} / HTTP/1.1\r\n\r\n".encode()
    messages = run(Http1(), [(C, ask), (S, case.wire), (S, END)], size)
    head = next((m for m in messages if isinstance(m, ResponseHead) and m.status != 100), None)
    body = b"".join(m.data for m in messages if isinstance(m, BodyData) and m.stream == 1)
    if head is not None and content.codings(head.headers):
        decoded = content.decode(body, head.headers)
        if not decoded.error and case.body != body:
            body = decoded.data
    return body, messages


def test_the_corpus_is_there() -> None:
    assert len(CASES) > 300


@pytest.mark.parametrize("name", CASES)
def test_body(name: str) -> None:
    case = CASES[name]
    body, messages = decode(case, 1 << 30)
    same = body == case.body
    assert same or name in CURL, f"\n{case}\n{messages}"
    assert not (same and name in CURL), "this difference is no more"
    assert decode(case, 1) == (body, messages)
