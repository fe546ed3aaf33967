"""A capture in which everything that the wire can choose is an attack on the page that shows it."""

import json
from pathlib import Path

from sslsniff.core.process import Process
from tests.unit.captures import READ, WRITE, Step, Taker

ATTACKS = (
    "</script><script>alert(1)</script>",
    "</SCRIPT\t><svg/onload=alert(1)>",
    "<!--<script>",
    "--><img src=x onerror=alert(1)>",
    "\"'><a href=javascript:alert(1)>x</a>",
    "<plaintext><style>*{display:none}</style><base href=//x.invalid/>",
    "<meta http-equiv=refresh content=0;url=//x.invalid/>",
    "{{constructor.constructor('alert(1)')()}}${alert(1)}",
    "__proto__",
    "\u202egpj.exe\u2066\u200b\u00ad\ufeff\u2028\u2029",
    "א שלום \u05d0<b>ב</b>",
    "\x1b]0;title\x07\x9b31m",
    "%00 &lt;b&gt; &#60;script&#62;",
)

LARGE = 10 << 20


def _with_header(value: bytes) -> bytes:
    return b"GET / HTTP/1.1\r\nHost: h.example\r\nX-Large: " + value + b"\r\n\r\n"


def _answer(body: bytes, more: bytes = b"", status: bytes = b"200 OK") -> bytes:
    return b"HTTP/1.1 %b\r\nContent-Length: %d\r\n" % (status, len(body)) + more + b"\r\n" + body


def write_hostile(path: Path) -> None:
    """Write the capture, in pcapng."""
    taker = Taker(path)
    for attack in ATTACKS:
        raw = attack.encode()
        in_line = raw.replace(b" ", b"+").replace(b"\t", b"+")
        steps: list[Step] = [
            (
                WRITE,
                b"POST /%b?q=%b HTTP/1.1\r\nHost: %b\r\nX-Attack: %b\r\n%b: 1\r\n"
                b"Content-Type: text/html\r\nContent-Length: %d\r\n\r\n%b"
                % (in_line, in_line, in_line, raw, b"x-a", len(raw), raw),
            ),
            (
                READ,
                _answer(
                    raw * 3,
                    b"Content-Type: %b\r\nLocation: javascript:alert(1)\r\nSet-Cookie: %b\r\n"
                    % (in_line, raw),
                    b"500 " + raw,
                ),
            ),
        ]
        taker.take(steps, process=Process(4321, attack.encode()[:15].decode("utf-8", "replace")))
    taker.take(_model_call())
    taker.take([(WRITE, _with_header(b"a" * 900_000)), (READ, _answer(b"\x00\xff\xfe<script>"))])
    taker.take([(WRITE, _with_header(b"\xff\x80<b>")), (READ, _answer(b"\x00" * 4000))])
    large = b"<" * (1 << 16)
    taker.take([*[(WRITE, _with_header(large))] * 3, *[(READ, _answer(large))] * 3])
    taker.take([(WRITE, _with_header(b"b" * LARGE)), (READ, _answer(b"ok"))])
    taker.close()


def _model_call() -> list[Step]:
    texts = [*ATTACKS, "\0"]
    question = {
        "model": ATTACKS[0],
        "messages": [{"role": ATTACKS[1], "content": text} for text in texts],
        "tools": [{"type": "function", "function": {"name": ATTACKS[3], "parameters": {}}}],
    }
    answer = {
        "id": ATTACKS[4],
        "object": "chat.completion",
        "model": ATTACKS[0],
        "choices": [
            {
                "finish_reason": ATTACKS[2],
                "message": {
                    "role": "assistant",
                    "content": "".join(texts),
                    "tool_calls": [
                        {
                            "id": "1",
                            "type": "function",
                            "function": {"name": ATTACKS[3], "arguments": json.dumps(texts)},
                        }
                    ],
                },
            }
        ],
        "usage": {"prompt_tokens": 10**15, "completion_tokens": 2},
    }
    asked, answered = json.dumps(question).encode(), json.dumps(answer).encode()
    kind = b"Content-Type: application/json\r\n"
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: api.example\r\n"
    head += kind + b"Content-Length: %d\r\n\r\n" % len(asked)
    return [(WRITE, head + asked), (READ, _answer(answered, kind))]
