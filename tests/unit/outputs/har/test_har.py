"""HTTP Archives, by the specification's tables and by mitmproxy's reader."""

import base64
import gzip
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sslsniff.core.model import Address, Body, Request, Response
from sslsniff.decoders.messages import Header, Headers
from sslsniff.outputs.har.archive import HarSink
from sslsniff.outputs.har.entry import entry
from tests.unit.exchanges import START_NS, connection, exchange, request, response
from tests.unit.outputs.har import mitmproxy
from tests.unit.outputs.har.archives import EXCHANGES, PAGE, PNG, assert_archive, written

PROGRAM = Path(__file__).parents[3] / "oracles/mitmproxy_har.py"


def test_an_entry_says_what_is_known(tmp_path: Path) -> None:
    post, page, logo, unanswered = written(tmp_path / "a.har", *EXCHANGES)
    asked, answered = post["request"], post["response"]
    assert (asked["method"], asked["url"], asked["httpVersion"], asked["bodySize"]) == (
        "POST",
        "https://example.org/form?a=1&b=%20x&a=",
        "HTTP/1.1",
        10,
    )
    pairs = [(each["name"], each["value"]) for each in asked["queryString"]]
    assert pairs == [("a", "1"), ("b", " x"), ("a", "")]
    assert asked["cookies"] == [
        {"name": "id", "value": "1"},
        {"name": "theme", "value": '"a=b"'},
    ]
    assert asked["headers"][0] == {"name": "Host", "value": "example.org"}
    mime_type = "application/x-www-form-urlencoded"
    assert asked["postData"] == {"mimeType": mime_type, "text": "name=value"}
    assert (answered["status"], answered["statusText"]) == (302, "Found")
    assert answered["redirectURL"] == "/next"
    first, second = answered["cookies"]
    expires = "2026-10-21T07:28:00+00:00"
    assert first == {"name": "id", "value": "2", "path": "/", "expires": expires} | {
        "httpOnly": True,
        "secure": False,
    }
    assert second == {"name": "t", "value": "", "domain": "example.org", "sameSite": "Lax"} | {
        "httpOnly": False,
        "secure": True,
    }
    assert (post["serverIPAddress"], post["connection"]) == ("127.0.0.1", "8443")
    assert post["_connectionId"] == "7-1"
    assert post["startedDateTime"] == "2023-11-14T22:13:20.123456Z"
    process = {"pid": 7, "tid": 7, "comm": "curl", "library": "openssl", "role": "client"}
    assert post["_process"] == process | {"container_pid": None, "container": None}
    coded = gzip.compress(PAGE)
    assert page["request"]["httpVersion"] == "HTTP/2"
    assert page["response"]["bodySize"] == len(coded)
    assert page["response"]["content"] == {
        "size": len(PAGE),
        "compression": len(PAGE) - len(coded),
        "mimeType": "text/html; charset=utf-8",
        "text": PAGE.decode(),
    }
    assert base64.b64decode(logo["response"]["content"]["text"]) == PNG
    assert logo["response"]["content"]["encoding"] == "base64"
    assert unanswered["request"]["postData"] == {"mimeType": "", "text": "AP8="} | {
        "_encoding": "base64"
    }
    assert (unanswered["response"]["status"], unanswered["response"]["bodySize"]) == (0, -1)


def spans(sent_ms: int | None, first_byte_ms: int | None) -> tuple[float, float, float]:
    timed = exchange(request(), response())
    timed.sent_ns = None if sent_ms is None else START_NS + sent_ms * 1_000_000
    timed.first_byte_ns = None if first_byte_ms is None else START_NS + first_byte_ms * 1_000_000
    timings = entry(timed)["timings"]
    return timings["send"], timings["wait"], timings["receive"]


@pytest.mark.parametrize(
    "date",
    [
        "Mon, 01 Jan 99999999999999999999 10:00:00 GMT",
        "Mon, 01 Jan 2020 10:00:00 +99999999999999999999",
        "Mon, 01 Jan 2020 10:00:00 +9999",
        "Mon, 99 Jan 2020 10:00:00 GMT",
    ],
)
def test_a_cookie_that_expires_never_ends_no_capture(date: str, tmp_path: Path) -> None:
    headers: list[Header] = [("Set-Cookie", f"a=b; Expires={date}; Path=/")]
    [made] = written(tmp_path / "a.har", exchange(request(), response(headers=headers)))
    [cookie] = made["response"]["cookies"]
    assert cookie == {"name": "a", "value": "b", "path": "/", "httpOnly": False, "secure": False}


def test_times_add_up() -> None:
    assert spans(1, 3) == (1, 2, 2)
    assert spans(4, 3) == (3, 0, 2)  # the response began before the request was sent
    assert spans(1, None) == (1, 4, 0)
    assert spans(None, 3) == (3, 0, 2)
    assert spans(None, None) == (5, 0, 0)
    assert spans(9, -1) == (0, 0, 5)  # clocks of two processors


def test_what_is_not_known_is_marked() -> None:
    on = connection()
    on.remote = None
    made = entry(exchange(None, None, on, error="reset: CANCEL", protocol="http/2"))
    assert made["request"]["url"] == "https://unknown.invalid/"
    assert made["request"]["comment"] == made["response"]["comment"] == "it was not seen"
    assert made["response"]["_error"] == "reset: CANCEL"
    assert "serverIPAddress" not in made
    on.remote = Address("::1", 443)
    joined = Request(None, None, None, None, Headers([(None, None), ("x", None)]))
    made = entry(exchange(joined, Response(None, "", Headers(), Body(9, b"abc", 6)), on))
    assert made["request"]["url"] == "https://[::1]/"
    assert [each["name"] for each in made["request"]["headers"]] == ["?", "x"]
    assert all(each["comment"] for each in made["request"]["headers"])
    assert made["_missingBytes"] == 6
    assert made["response"]["content"]["comment"] == "3 of 9 bytes were kept"
    broken = entry(exchange(request(), response(200, [("content-encoding", "gzip")], b"plain")))
    assert broken["response"]["content"]["text"] == "plain"
    assert "gzip" in broken["response"]["content"]["comment"]


@pytest.mark.parametrize(
    ("method", "target", "url"),
    [
        ("CONNECT", "example.com:443", "https://example.com:443/"),
        ("OPTIONS", "*", "https://example.org/"),
        ("GET", "http://example.com/a?b", "http://example.com/a?b"),
        ("GET", "/a b", "https://example.org/a b"),
    ],
)
def test_urls_are_absolute(method: str, target: str, url: str) -> None:
    assert entry(exchange(request(method, target)))["request"]["url"] == url


@pytest.mark.heavy
def test_mitmproxy_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "a.har"
    written(path, *EXCHANGES)
    flows = json.loads(mitmproxy.run("python", PROGRAM, path))
    assert [flow["method"] for flow in flows] == ["POST", "GET", "GET", "PUT"]
    assert [flow["version"] for flow in flows] == ["HTTP/1.1", "HTTP/2", "HTTP/1.1", "HTTP/1.1"]
    assert flows[0]["url"] == "https://example.org/form?a=1&b=%20x&a="
    assert base64.b64decode(flows[0]["request"]["body"]) == b"name=value"
    for flow, each in zip(flows, EXCHANGES, strict=True):
        assert each.request is not None
        assert flow["request"]["headers"] == [list(pair) for pair in each.request.headers]
        if each.response is not None:
            assert flow["status"] == each.response.status
            assert flow["response"]["headers"] == [list(pair) for pair in each.response.headers]
        assert flow["started"] == pytest.approx(START_NS / 1e9, abs=1e-3)
    assert [base64.b64decode(flow["response"]["body"]) for flow in flows] == [b"", PAGE, PNG, b""]
    assert "4 flows" in mitmproxy.run(
        "mitmdump", "-q", "-n", "-r", path, "-s", PROGRAM.with_name("mitmproxy_count.py")
    )


texts = st.none() | st.text(max_size=8)
headers = st.lists(
    st.tuples(texts | st.sampled_from(["cookie", "set-cookie", "content-type"]), texts), max_size=3
)


@pytest.mark.tools
@given(texts, texts, texts, texts, headers, st.binary(max_size=20), st.none() | st.integers(0, 999))
def test_any_exchange_makes_an_entry(
    method: str | None,
    target: str | None,
    scheme: str | None,
    authority: str | None,
    fields: list[tuple[str | None, str | None]],
    body: bytes,
    status: int | None,
) -> None:
    headers = Headers(fields)
    asked = Request(method, target, scheme, authority, headers, Body(len(body), body), fields)
    answered = Response(status, target or "", headers, Body(len(body) + 1, body, 1), fields)
    read, write = os.pipe()
    with os.fdopen(read, "rb") as reading:
        with os.fdopen(write, "wb") as file:
            sink = HarSink(file)
            sink.exchange(exchange(asked, answered))
            sink.close()
        assert len(assert_archive(reading.read())) == 1
