"""curl's own test cases: server replies with oddities, and what curl makes of them.

curl shows the heads and bodies of the replies, of some the head alone; what it shows must be what
is decoded. Requests and replies of a case are one conversation, decoded from both sides.
"""

import re
from random import Random

import pytest

from sslsniff.decoders.content import codings
from sslsniff.decoders.detect import Detector
from sslsniff.decoders.messages import (
    BodyData,
    Headers,
    Message,
    MessageEnd,
    RequestHead,
    ResponseHead,
)
from tests.corpus.conftest import corpus
from tests.corpus.curl_cases import Case, heads, read
from tests.corpus.differences import CURL_REPLIES, CURL_SHOWN
from tests.unit.decoders.wires import END, C, S, run

FOLDER = corpus("curl")
ALL = {path.name: case for path in sorted(FOLDER.glob("test*")) if (case := read(path))}
SHOWN = [name for name, case in ALL.items() if case.shown is not None]
# A form's boundary is random, so curl's cases leave pieces out of requests' bodies.
_BODY = re.compile(rb"^(Content-Length|Transfer-Encoding):", re.MULTILINE)
ASKED = [
    name
    for name, case in ALL.items()
    if case.requests and all(case.reply_to(r) and not _BODY.search(r) for r in case.requests)
]


def method(case: Case, name: str) -> bytes:
    if name.startswith("connect"):
        return b"CONNECT"
    return b"HEAD" if case.requests and all(r[:5] == b"HEAD " for r in case.requests) else b"GET"


def decode(reply: bytes, method: bytes, sizes: Random | int = 1 << 30) -> list[Message]:
    ask = method + b" / HTTP/1.1\r\n\r\n"
    return run(Detector(), [(C, ask), (S, reply), (S, END)], sizes)


def body_of(messages: list[Message], stream: int = 1) -> bytes:
    return b"".join(m.data for m in messages if isinstance(m, BodyData) and m.stream == stream)


def shown_of(reply: bytes, method: bytes) -> list[bytes]:
    """Return what curl may show after the head: the body, decoded or not, and its trailers."""
    messages = decode(reply, method)
    body = body_of(messages)
    head = next((m for m in reversed(messages) if isinstance(m, ResponseHead)), None)
    decoded = codings.decode(body, head.headers if head else Headers())
    trailers = [field for m in messages if isinstance(m, MessageEnd) for field in m.trailers]
    lines = "".join(f"{name}: {value}\r\n" for name, value in trailers).encode()
    bodies = [body] if decoded.error else [decoded.data, body]
    return [one + end for one in bodies for end in (lines, lines.replace(b"\r", b"")) if one]


def unexplained(case: Case) -> bytes:
    """Take what is decoded off what curl shows; return what remains."""
    bodies: list[tuple[bytes, list[bytes]]] = []  # those that may follow a head
    for name, reply in case.replies.items():
        *informational, final = [without_cr(head) for head in heads(reply)[0]] or [b""]
        bodies += [(head, []) for head in informational]
        bodies.append((final, shown_of(reply, method(case, name))))
    rest = case.shown or b""
    while rest:
        head = next(iter(heads(rest)[0]), b"")
        own = [may for whose, may in bodies if whose == without_cr(head) or not head]
        after = rest[len(head) :]
        found = [body for may in own for body in may if after.startswith(body)]
        body = max(found, key=len, default=b"")
        # Of a reply that is answered by another request, curl shows the head alone.
        if not own or not (body or (head and after[:5] in (b"", b"HTTP/"))):
            return rest
        rest = after[len(body) :]
    return b""


def without_cr(head: bytes) -> bytes:
    return head.replace(b"\r", b"")


def test_the_corpus_is_there() -> None:
    assert len(ALL) > 1100
    assert len(SHOWN) > 700
    assert len(ASKED) > 600


@pytest.mark.parametrize("name", SHOWN)
def test_what_curl_shows(name: str) -> None:
    rest = unexplained(ALL[name])
    assert bool(rest) == (name in CURL_SHOWN), f"\n{rest!r}\n{ALL[name]}"


@pytest.mark.parametrize("name", ALL)
def test_pieces_of_any_size_decode_alike(name: str) -> None:
    for kind, reply in ALL[name].replies.items():
        ask = method(ALL[name], kind)
        whole = decode(reply, ask)
        assert decode(reply, ask, 1) == whole
        assert decode(reply, ask, Random(name)) == whole


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("size", [1 << 30, 1])
def test_each_reply_belongs_to_its_request(name: str, size: int) -> None:
    case = ALL[name]
    decoder = Detector()
    for request in case.requests:
        reply = case.reply_to(request) or b""
        messages = run(decoder, [(C, request), (S, reply)], size)
        asked = [m for m in messages if isinstance(m, RequestHead)]
        words = request.split(b"\r\n")[0].decode("latin-1").split(" ")
        assert [(m.method, m.target) for m in asked] == [(words[0], words[1])]
        stream = asked[0].stream
        answered = {m.stream for m in messages if isinstance(m, ResponseHead)}
        assert answered == (set() if name in CURL_REPLIES else {stream})
        if not any(isinstance(m, MessageEnd) and m.side is S for m in messages):
            messages += run(decoder, [(C, END), (S, END)])
            decoder = Detector()
        assert body_of(messages, stream) == body_of(decode(reply, words[0].encode()))
