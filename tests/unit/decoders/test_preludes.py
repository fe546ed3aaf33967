"""What a proxy sends before a connection's protocol, and connections that are not HTTP."""

import pytest

from sslsniff.decoders.detect import Detector
from sslsniff.decoders.messages import Message, Undecoded
from sslsniff.decoders.preludes import credentials
from tests.unit.decoders.http1_wires import GET, OK, get, ok
from tests.unit.decoders.http2_wires import HELLO, answer, answered, ask, asked
from tests.unit.decoders.wires import END, C, S, Step, frame, run

PROXY_1 = b"PROXY TCP4 192.0.2.1 192.0.2.2 5000 443\r\n"
PROXY_2 = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c" + b"\xc0\0\2\1\xc0\0\2\2\x13\x88\1\xbb"
LOCAL_2 = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0"
SOCKS_5 = b"\x05\x01\0", b"\x05\0", b"\x05\1\0\3\4h.te\0\x50"
GRANTED_5 = b"\x05\0\0\1\0\0\0\0\0\0"
LOG_IN = b"\x01\4name\6secret"
SOCKS_4 = b"\4\1\0\x50\0\0\0\1user\0h.test\0"
GRANTED_4 = b"\0\x5a\0\0\0\0\0\0"

PRELUDES: dict[str, list[Step]] = {
    "PROXY 1": [(C, PROXY_1)],
    "PROXY 1, not known": [(C, b"PROXY UNKNOWN\r\n")],
    "PROXY 2": [(C, PROXY_2)],
    "PROXY 2, of a health check": [(C, LOCAL_2)],
    "SOCKS 5": [(C, SOCKS_5[0]), (S, SOCKS_5[1]), (C, SOCKS_5[2]), (S, GRANTED_5)],
    "SOCKS 5 with a password": [
        *((C, b"\x05\2\0\2"), (S, b"\x05\2"), (C, LOG_IN), (S, b"\1\0")),
        *((C, SOCKS_5[2]), (S, GRANTED_5)),
    ],
    "SOCKS 4": [(C, SOCKS_4), (S, GRANTED_4)],
}
PROTOCOLS: dict[str, tuple[list[Step], list[Message]]] = {
    "http/1.1": ([(C, GET), (S, OK)], [*get(1), *ok(1)]),
    "http/2": (
        [(C, HELLO + ask(1)), (S, frame(4, 0, 0) + answer(1) + frame(0, 1, 1))],
        [*asked(1), answered(1)],
    ),
}


@pytest.mark.parametrize("size", [1 << 30, 1])
@pytest.mark.parametrize("name", PRELUDES)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_protocol_begins_after_what_a_proxy_sends(protocol: str, name: str, size: int) -> None:
    steps, messages = PROTOCOLS[protocol]
    decoder = Detector(from_start=True)
    found = run(decoder, [*PRELUDES[name], *steps], size)
    assert decoder.protocol == protocol
    first = sum(len(step) for _, step in PRELUDES[name] if isinstance(step, bytes))
    assert sum(each.size for each in found if isinstance(each, Undecoded)) == first
    decoded = [each for each in found if not isinstance(each, Undecoded)]
    assert decoded[: len(messages)] == messages


def test_credentials_of_socks() -> None:
    sent = b"\x05\2\0\2" + LOG_IN + SOCKS_5[2]
    assert [sent[start:stop] for start, stop in credentials(sent)] == [b"name", b"secret"]
    assert credentials(b"".join(SOCKS_5[::2])) == []


TEXT = b"GET /phantom HTTP/1.1\r\nHost: not.sent\r\n\r\n"
ERROR = b"HTTP/1.1 500 Oops\r\nContent-Length: 3\r\n\r\nbad"
BODY = b"\r\n\r\n" + TEXT
_XML = b"<?xml version='1.0'?><stream:stream xmlns='jabber:client' to='h' version='1.0'>"
_MONGO = b"\0\0\0\0\1\0\0\0\0\0\0\0\xdd\7\0\0\0\0\0\0\0"
FOREIGN: dict[str, list[Step]] = {
    "MQTT": [(C, b"\x10\x10\0\4MQTT"), (S, b"\x20\2\0\0"), (C, b"0=\0\3a/b" + TEXT), (S, ERROR)],
    "NATS": [
        (S, b"INFO {}\r\n"),
        (C, b"CONNECT {}\r\nPUB f 9\r\n" + TEXT),
        (S, b"MSG\r\n" + ERROR),
    ],
    "SMTP": [(S, b"220 h\r\n"), (C, b"DATA\r\n"), (S, b"354 go\r\n"), (C, TEXT + ERROR)],
    "POP3": [(S, b"+OK\r\n"), (C, b"RETR 1\r\n"), (S, b"+OK\r\n" + ERROR), (C, TEXT)],
    "IMAP, appended": [(S, b"* OK\r\n"), (C, b"a1 APPEND x {43}\r\n"), (S, b"+ go\r\n"), (C, TEXT)],
    "syslog": [(C, b"83 <34>1 - h app - - - " + TEXT), (C, b"<34> " + TEXT)],
    "STOMP": [(C, b"CONNECT\n\n\0"), (S, b"CONNECTED\n\n\0"), (S, b"MESSAGE\n\n" + ERROR)],
    "STOMP, sent": [
        (C, b"CONNECT\naccept-version:1.2\nhost:h\n\n\0"),
        (S, b"CONNECTED\nversion:1.2\n\n\0"),
        (C, b"SEND\ndestination:/a\n\n" + TEXT + b"\0"),
        (S, b"MESSAGE\n\n" + ERROR + b"\0"),
    ],
    "XMPP": [
        *((C, _XML), (S, _XML), (C, b"<message to='a'><body>" + BODY + b"</body></message>")),
        *((S, b"<message><body>\r\n" + ERROR + b"</body></message>"), (C, TEXT)),
    ],
    "FTP": [
        *((S, b"220 ready\r\n"), (C, b"USER a\r\n"), (S, b"331 go\r\n"), (C, b"PASS b\r\n")),
        *((S, b"230-Welcome\r\n" + ERROR + b"\r\n230 ok\r\n"), (C, b"SITE x\r\n" + TEXT)),
    ],
    "LDAP": [
        (C, b"0\x0c\2\1\1`\7\2\1\3\4\0\x80\0"),
        (S, b"0\x0c\2\1\1a\7\n\1\0\4\0\4\0"),
        (C, b"0\x40\2\1\2f;\4\1a06\x30\x34\n\1\2\x30\x2f" + BODY),
        (S, b"0\x40\2\1\2d\x3b\4\1a\r\n" + ERROR),
    ],
    "MongoDB": [
        (C, b"\x26\0\0\0" + _MONGO + b"\x11\0\0\0\x10hello\0\1\0\0\0\0"),
        (S, b"\x26\0\0\0" + _MONGO + b"\x11\0\0\0\x10ok\0\1\0\0\0\0\0\0\0"),
        (C, b"\x60\0\0\0" + _MONGO + b"\x4b\0\0\0\2insert\0" + BODY + b"\0\0"),
        (S, b"\x60\0\0\0" + _MONGO + b"\x4b\0\0\0\2errmsg\0\n" + ERROR + b"\0\0"),
    ],
    "Cassandra": [
        (C, b"\4\0\0\0\1\0\0\0\x16\0\1\0\x0bCQL_VERSION\0\0053.0.0"),
        (S, b"\x84\0\0\0\2\0\0\0\0"),
        (C, b"\4\0\0\1\7\0\0\0\x40\0\0\0\x34SELECT '" + BODY + b"'\0\1\0"),
        (S, b"\x84\0\0\1\0\0\0\0\x40\0\0\0\0\0\n" + ERROR),
    ],
    "AMQP 0-9-1": [
        (C, b"AMQP\0\0\x09\1"),
        (S, b"\1\0\0\0\0\0\4\0\n\0\n\xce"),
        (C, b"\3\0\1\0\0\0\x2e" + BODY + b"\xce"),
        (S, b"\3\0\1\0\0\0\x2c\n" + ERROR + b"\xce"),
    ],
    "AMQP 1.0": [
        *((C, b"AMQP\3\1\0\0"), (S, b"AMQP\3\1\0\0"), (C, b"AMQP\0\1\0\0")),
        (S, b"AMQP\0\1\0\0\0\0\0\x0c\2\0\0\0\0S\x10E"),
        (C, b"\0\0\0\x48\2\0\0\0\0S\x14\xc0\1E\0Su\xa0\x2e" + BODY),
        (S, b"\0\0\0\x48\2\0\0\0\0S\x14\xc0\1E\0Su\xa0\x2e\n" + ERROR),
    ],
    "ICAP": [
        (
            C,
            b"REQMOD icap://h/a ICAP/1.0\r\nHost: h\r\nEncapsulated: req-hdr=0, null-body=43"
            + BODY,
        ),
        (S, b"ICAP/1.0 200 OK\r\nEncapsulated: res-hdr=0, res-body=40\r\n\r\n" + ERROR),
    ],
    "RTSP": [
        (C, b"ANNOUNCE rtsp://h/a RTSP/1.0\r\nCSeq: 1\r\nContent-Length: 43" + BODY),
        (S, b"RTSP/1.0 200 OK\r\nCSeq: 1\r\nContent-Length: 44\r\n\r\n" + ERROR),
    ],
    "SIP": [
        (C, b"MESSAGE sip:a@h SIP/2.0\r\nContent-Length: 43" + BODY),
        (S, b"SIP/2.0 200 OK\r\nContent-Length: 44\r\n\r\n" + ERROR),
    ],
    "Memcached": [
        (C, b"set k 0 0 43\r\n" + TEXT + b"\r\n"),
        (S, b"STORED\r\n"),
        (C, b"get k\r\n"),
        (S, b"VALUE k 0 44\r\n" + ERROR + b"\r\nEND\r\n"),
    ],
    "IRC": [
        (C, b"NICK a\r\nUSER a 0 * :a\r\n"),
        (S, b":h 001 a :Hi\r\n"),
        (C, b"PRIVMSG #b :c\r\n" + TEXT),
        (S, b":c PRIVMSG #b :d\r\n" + ERROR),
    ],
    "words before a version": [(C, b"HELLO big wide HTTP/1.1\r\nHost: a\r\n\r\n")],
    "text of HTTP/2": [(C, b"\x10\x0eMQTT\4\n" + HELLO + ask(1)), (S, b" \2\0\0" + answer(1))],
    "a loss": [(C, b"\x10\x10\0\4MQTT"), (C, 9), (C, TEXT), (S, 4), (S, ERROR), (C, TEXT)],
    "inside a tunnel": [
        (C, b"CONNECT a:1 HTTP/1.1\r\n\r\n"),
        (S, b"HTTP/1.1 200 OK\r\n\r\n"),
        *((S, b"SSH-2.0-x\r\n"), (C, b"SSH-2.0-y\r\n" + TEXT), (S, ERROR)),
    ],
}


@pytest.mark.parametrize("alpn", [None, "http/1.1"])
@pytest.mark.parametrize("size", [1 << 30, 1])
@pytest.mark.parametrize("name", FOREIGN)
def test_text_of_http_in_another_protocol_is_none(name: str, size: int, alpn: str | None) -> None:
    """ALPN proves nothing: some clients and servers agree on ``http/1.1`` for any protocol."""
    decoder = Detector(alpn, from_start=True)
    found = run(decoder, FOREIGN[name], size)
    found += decoder.finish()
    assert decoder.protocol == "unknown"
    assert "phantom" not in repr([each for each in found if not isinstance(each, Undecoded)])
    again = decoder.successor()
    assert all(isinstance(each, Undecoded) for each in run(again, [(C, TEXT), (S, ERROR)]))
    assert again.protocol == "unknown"


FROB = b"FROB / HTTP/1.1\r\nHost: a\r\n\r\n"


@pytest.mark.parametrize(("alpn", "protocol"), [(None, "unknown"), ("http/1.1", "http/1.1")])
@pytest.mark.parametrize("size", [1 << 30, 1])
def test_a_method_that_nobody_answers(size: int, alpn: str | None, protocol: str) -> None:
    """With ALPN the form of the line is enough."""
    decoder = Detector(alpn, from_start=True)
    run(decoder, [(C, FROB)], size)
    assert decoder.protocol == protocol


BEGUN: dict[str, list[Step]] = {
    "nothing": [],
    "an empty line": [(C, b"\r\n")],
    "a part of a line": [(C, b"GET /")],
    "a loss": [(C, 9), (C, b"\0")],
    "a loss in the line": [(C, b"GET /"), (C, 9)],
    "an end": [(C, b"GET /"), (C, END)],
}


@pytest.mark.parametrize("name", BEGUN)
def test_alpn_is_believed_as_long_as_nothing_contradicts_it(name: str) -> None:
    decoder = Detector("http/1.1", from_start=True)
    expected = Detector("http/1.1")
    assert run(decoder, BEGUN[name], 1) + decoder.finish() == run(expected, BEGUN[name], 1)
    assert decoder.protocol == "http/1.1"


ANSWERED: dict[str, list[Step]] = {
    "a method that is answered": [(C, FROB), (S, OK)],
    "a target with a blank that is answered": [(C, b"GET /a b HTTP/1.1\r\n\r\n"), (S, OK)],
    "what a server of HTTP does not understand": [(C, b"EHLO a\r\n"), (S, ERROR)],
    "the answers alone": [(S, OK), (S, OK)],
    "a request to what is no server of HTTP": [(S, b"SSH-2.0-x\r\n"), (C, GET)],
}


@pytest.mark.parametrize("alpn", [None, "http/1.1"])
@pytest.mark.parametrize("size", [1 << 30, 1])
@pytest.mark.parametrize("name", ANSWERED)
def test_either_side_proves_http(name: str, size: int, alpn: str | None) -> None:
    decoder = Detector(alpn, from_start=True)
    run(decoder, ANSWERED[name], size)
    assert decoder.protocol == "http/1.1"


JOINED: dict[str, tuple[list[Step], str]] = {
    "in another protocol": ([(C, b"0=\0\3a/b" + TEXT), (S, b"00\0\3a/c" + ERROR)], "unknown"),
    "in another protocol, twice": (
        [(C, b"0=" + TEXT + b"0=" + TEXT), (S, b"0" + ERROR)],
        "unknown",
    ),
    "in a body, then a request": ([(S, b"tail"), (C, GET), (S, OK)], "http/1.1"),
    "in an upload, then its answer": ([(C, b"tail" + TEXT + b"tail"), (S, OK)], "http/1.1"),
    "in pipelined answers": ([(S, b"tail" + OK + OK)], "http/1.1"),
    "after a loss": ([(S, b"tail"), (S, 5), (S, OK)], "http/1.1"),
    "before any end": ([(C, b"x" + TEXT), (C, END)], "unknown"),
}


@pytest.mark.parametrize("size", [1 << 30, 1])
@pytest.mark.parametrize("name", JOINED)
def test_joined(name: str, size: int) -> None:
    steps, protocol = JOINED[name]
    decoder = Detector()
    run(decoder, steps, size)
    assert decoder.protocol == protocol
