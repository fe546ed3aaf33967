"""llhttp's own cases: Markdown with the input and llhttp's log of what it found in it.

llhttp is strict by design and stops at the first error; an onlooker reads on. So the
messages that llhttp completed must be found alike; after its error nothing is compared.
"""

import json
import re
from dataclasses import dataclass, field
from random import Random

import pytest

from sslsniff.decoders.http1.http1_decoder import Http1Decoder
from sslsniff.decoders.messages import (
    BodyData,
    Header,
    Message,
    MessageEnd,
    RequestHead,
    ResponseHead,
    Side,
)
from tests.corpus.conftest import corpus
from tests.corpus.differences import LLHTTP, LLHTTP_SPACE
from tests.unit.decoders.wires import END, C, S, run

FOLDER = corpus("llhttp") / "test"

_CASE = re.compile(
    r"^#+ (?P<title>[^\n]+)\n(?:(?!^#)(?!^<!--).)*?"
    r"<!-- meta=(?P<meta>\{.*?\}) -->\s*```http\n(?P<http>(?:(?!```).)*)```"
    r"(?:(?!^#|^```).)*```log\n(?P<log>.*?)```",
    re.MULTILINE | re.DOTALL,
)
_SPAN = re.compile(r'off=\d+ len=\d+ span\[(\w+)\]=(?:"(.*)"|(cr|lf))$')


@dataclass
class Found:
    """A message as far as both tell it: start line, fields, body, whether it is complete."""

    start: list[str]
    headers: list[Header] = field(default_factory=list)
    body: bytes = b""
    complete: bool = False


@dataclass
class Case:
    side: Side
    wire: bytes
    found: list[Found]
    error: bool


def unescape(text: str) -> bytes:
    """Undo the escapes that llhttp's own reader of these files undoes, in its order."""
    text = text.removesuffix("\n")
    text = re.sub(r"\\(\r\n|\r|\n)", "", text)
    text = re.sub(r"\r\n|\r|\n", "\r\n", text)
    for name, char in (("r", "\r"), ("n", "\n"), ("t", "\t"), ("f", "\f")):
        text = text.replace("\\" + name, char)
    text = text.replace('\\"', '"')
    text = re.sub(r"\\x([0-9a-fA-F]{2})", lambda found: chr(int(found[1], 16)), text)
    return bytes(ord(c) for c in text) if max(map(ord, text), default=0) < 256 else text.encode()


def value_of(span: re.Match[str]) -> bytes:
    if span[3]:
        return {"cr": b"\r", "lf": b"\n"}[span[3]]
    return unescape(span[2])


def read_log(log: str, side: Side) -> tuple[list[Found], bool]:
    found: list[Found] = []
    names: dict[str, bytes] = {}
    heads: dict[int, bool] = {}
    for line in log.splitlines():
        span = _SPAN.match(line)
        if line.endswith("message begin"):
            found.append(Found([]))
            names = {}
        elif span:
            names[span[1]] = names.get(span[1], b"") + value_of(span)
        elif line.endswith("header_field complete"):
            names["name"] = names.pop("header_field", b"")
        elif line.endswith("header_value complete") and found:
            # The decoder itself removes white space at the end, llhttp leaves some of it.
            value = names.pop("header_value", b"").strip(b" \t")
            if len(found) - 1 not in heads:
                found[-1].headers.append((text(names.pop("name", b"")), text(value)))
        elif " headers complete " in line:
            heads[len(found) - 1] = True
            version = "HTTP/" + text(names.get("version", b""))
            if side is C:
                found[-1].start = [text(names["method"]), text(names["url"]), version]
            else:
                status = re.search(r"status=(\d+)", line)
                reason = text(names.get("status", b""))
                found[-1].start = [status[1] if status else "", reason, version]
        elif line.endswith("message complete"):
            found[-1].complete = True
            found[-1].body = names.pop("body", b"")
        if found and "body" in names:
            found[-1].body = names["body"]
    return [one for at, one in enumerate(found) if at in heads], "error code=" in log


def text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def load() -> dict[str, Case]:
    cases = {}
    for path in sorted(FOLDER.glob("re*/*.md")):
        for one in _CASE.finditer(path.read_text()):
            meta = json.loads(one["meta"])
            side = C if meta["type"].startswith("request") else S
            found, error = read_log(one["log"], side)
            name = f"{path.parent.name}/{path.stem}: {one['title']}"
            while name in cases:
                name += " (2)"
            cases[name] = Case(side, unescape(one["http"]), found, error)
    return cases


CASES = load()


def decode(case: Case, end: bool, size: int | Random) -> list[Found]:
    found: dict[int, Found] = {}
    order: list[Found] = []
    decoder = Http1Decoder()
    if case.side is S:  # llhttp takes a response for one to GET
        run(decoder, [(C, b"GET / HTTP/1.1\r\n\r\n" * 9)])
    steps: list[tuple[Side, bytes | int | str]] = [(case.side, case.wire)]
    for message in run(decoder, [*steps, (case.side, END)] if end else steps, size):
        add(message, found, order)
    return order


def add(message: Message, found: dict[int, Found], order: list[Found]) -> None:
    match message:
        case RequestHead():
            head = [message.method or "", message.target or "", message.version]
        case ResponseHead():
            head = [str(message.status), message.reason, message.version]
            if message.status is not None and message.status < 200:
                # llhttp completes it; here a final head follows on the same stream.
                order.append(Found(head, list(message.headers), b"", True))
                return
        case BodyData() if message.stream in found:
            found[message.stream].body += message.data
            return
        case MessageEnd() if message.stream in found:
            found[message.stream].complete = True
            return
        case _:
            return
    found[message.stream] = Found(head, list(message.headers))
    order.append(found[message.stream])


def test_the_corpus_is_there() -> None:
    files = [path.read_text() for path in FOLDER.glob("re*/*.md")]
    assert len(CASES) == sum(text.count("```http\n") for text in files) > 250


def without_space(found: list[Found]) -> list[Found]:
    """Leave out the white space of heads, where it differs on purpose."""

    def bare(text: str | None) -> str:
        return "".join((text or "").split())

    return [
        Found(
            [bare(word) for word in one.start],
            [(bare(name), bare(value)) for name, value in one.headers],
            one.body,
            one.complete,
        )
        for one in found
    ]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("chunks", ["whole", "bytes", "random"])
def test_case(name: str, chunks: str) -> None:
    case = CASES[name]
    sizes: dict[str, int | Random] = {"whole": 1 << 30, "bytes": 1, "random": Random(name)}
    size = sizes[chunks]
    true = [one for one in case.found if one.complete] if case.error else case.found
    got = decode(case, False, size)
    if any(one.complete for one in true) and got and not got[-1].complete:
        got = decode(case, True, size)
    if case.error:
        got = got[: len(true)]
    if name in LLHTTP_SPACE:
        assert got != true, "this difference is no more"
        got, true = without_space(got), without_space(true)
    same = got == true
    assert same or name in LLHTTP, f"\n{case.wire!r}\n got {got}\ntrue {true}"
    assert not (same and name in LLHTTP), "this difference is no more"
