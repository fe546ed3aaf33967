"""HTTP Archives, by the specification's tables and by mitmproxy's reader."""

import base64
import gzip
import io
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sslsniff.errors import OutputError
from sslsniff.model import Address, Body, Exchange, Request, Response
from sslsniff.sinks.har import HarSink
from sslsniff.sinks.har_entry import entry
from tests.unit import mitmproxy
from tests.unit.captures import READ, WRITE, Taker
from tests.unit.exchanges import START_NS, connection, exchange, request, response

SSLSNIFF = Path(sys.executable).with_name("sslsniff")
PROGRAM = Path(__file__).parent.parent.parent / "programs/mitmproxy_har.py"

# HAR 1.2: what each object must have, and what it may have ("?"); the rest begins with "_".
NAMED = [{"name": str, "value": str, "comment?": str}]
LOG = {
    "version": str,
    "creator": {"name": str, "version": str},
    "pages": [],
    "entries": [
        {
            "startedDateTime": str,
            "time": float,
            "request": {
                "method": str,
                "url": str,
                "httpVersion": str,
                "cookies": NAMED,
                "headers": NAMED,
                "queryString": NAMED,
                "postData?": {"mimeType": str, "text": str},
                "headersSize": int,
                "bodySize": int,
                "comment?": str,
            },
            "response": {
                "status": int,
                "statusText": str,
                "httpVersion": str,
                "cookies": [
                    {
                        "name": str,
                        "value": str,
                        "path?": str,
                        "domain?": str,
                        "expires?": str,
                        "httpOnly": bool,
                        "secure": bool,
                        "sameSite?": str,
                    }
                ],
                "headers": NAMED,
                "content": {
                    "size": int,
                    "compression?": int,
                    "mimeType": str,
                    "text?": str,
                    "encoding?": str,
                    "comment?": str,
                },
                "redirectURL": str,
                "headersSize": int,
                "bodySize": int,
                "comment?": str,
            },
            "cache": {},
            "timings": {
                **{name: float for name in ("blocked", "dns", "connect", "ssl")},
                **{name: float for name in ("send", "wait", "receive")},
            },
            "serverIPAddress?": str,
            "connection?": str,
        }
    ],
}


def assert_form(value: Any, form: Any, place: str = "log") -> None:
    """Compare a value with the table of its form."""
    if isinstance(form, list):
        assert isinstance(value, list), place
        for each in value:
            assert_form(each, form[0], place)
    elif isinstance(form, dict):
        must = {name for name in form if not name.endswith("?")}
        may = must | {name[:-1] for name in form} | {name.rstrip("?") for name in form}
        has = {name for name in value if not name.startswith("_")}
        assert must <= has <= may, f"{place}: {must - has} are missing, {has - may} unknown"
        for name in has:
            assert_form(value[name], form.get(name, form.get(f"{name}?")), f"{place}.{name}")
    elif form is float:
        assert isinstance(value, int | float), place
    else:
        assert type(value) is form, place


def assert_archive(text: str | bytes) -> list[dict[str, Any]]:
    """``text`` is a HAR 1.2 archive; return its entries."""
    archive = json.loads(text)
    assert list(archive) == ["log"]
    log = archive["log"]
    assert_form(log, LOG)
    assert log["version"] == "1.2"
    for each in log["entries"]:
        spans = [each["timings"][name] for name in ("send", "wait", "receive")]
        assert min(spans) >= 0
        assert each["time"] == pytest.approx(sum(spans), abs=0.002)
    entries: list[dict[str, Any]] = log["entries"]
    return entries


def written(path: Path, *exchanges: Exchange) -> list[dict[str, Any]]:
    with path.open("wb") as file:
        sink = HarSink(file)
        for each in exchanges:
            sink.exchange(each)
        sink.close()
    return assert_archive(path.read_bytes())


PNG = bytes(range(256))
PAGE = "<p>Grüße</p>".encode()
POST = exchange(
    request(
        "POST",
        "/form?a=1&b=%20x&a=",
        [
            ("Host", "example.org"),
            ("Content-Type", "application/x-www-form-urlencoded"),
            ("Cookie", 'id=1; theme="a=b"'),
        ],
        b"name=value",
    ),
    response(
        302,
        [
            ("Location", "/next"),
            ("Set-Cookie", "id=2; Path=/; Expires=Wed, 21 Oct 2026 07:28:00 GMT; HttpOnly; X=y"),
            ("Set-Cookie", "t=; secure; SameSite=Lax; Domain=example.org; expires=never"),
        ],
        reason="Found",
    ),
)
EXCHANGES = [
    POST,
    exchange(
        request(target="/page", headers=[("accept", "*/*")]),
        response(
            200,
            [("content-type", "text/html; charset=utf-8"), ("content-encoding", "gzip")],
            gzip.compress(PAGE),
        ),
        protocol="http/2",
    ),
    exchange(request(target="/logo.png"), response(200, [("content-type", "image/png")], PNG)),
    exchange(request("PUT", "/raw", body=b"\x00\xff")),
]


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
    assert post["_process"] == process
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
    joined = Request(None, None, None, None, [(None, None), ("x", None)])
    made = entry(exchange(joined, Response(None, "", [], Body(9, b"abc", 6)), on))
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
    asked = Request(method, target, scheme, authority, fields, Body(len(body), body), fields)
    answered = Response(status, target or "", fields, Body(len(body) + 1, body, 1), fields)
    read, write = os.pipe()
    with os.fdopen(read, "rb") as reading:
        with os.fdopen(write, "wb") as file:
            sink = HarSink(file)
            sink.exchange(exchange(asked, answered))
            sink.close()
        assert len(assert_archive(reading.read())) == 1


def test_the_file_is_whole_after_each_exchange(tmp_path: Path) -> None:
    path = tmp_path / "a.har"
    with path.open("wb") as file:
        sink = HarSink(file)
        assert assert_archive(path.read_bytes()) == []
        for number in range(1, 4):
            sink.exchange(POST)
            assert len(assert_archive(path.read_bytes())) == number
        whole = path.read_bytes()
        sink.close()
        assert path.read_bytes() == whole


def test_appended_to_a_file_it_is_whole_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "a.har"
    with path.open("ab") as file:
        sink = HarSink(file)
        sink.exchange(POST)
        sink.exchange(POST)
        sink.close()
    assert len(assert_archive(path.read_bytes())) == 2


def test_a_full_disk_leaves_a_whole_file(tmp_path: Path) -> None:
    """On a file system of 64 KiB, in a mount namespace of its own."""
    program = f"""
import sys
sys.path[:0] = {sys.path!r}
from pathlib import Path
from sslsniff.errors import OutputError
from sslsniff.sinks.har import HarSink
from tests.unit.sinks.test_har import POST
path = Path({str(tmp_path)!r}, "full", "a.har")
with path.open("wb") as file:
    sink = HarSink(file)
    errors = 0
    for _ in range(100):
        try:
            sink.exchange(POST)
        except OutputError as error:
            errors += 1
            print(error, file=sys.stderr)
    sink.close()
assert errors == 1
sys.stdout.buffer.write(path.read_bytes())
"""
    full = tmp_path / "full"
    full.mkdir()
    mount = f"mount -t tmpfs -o size=64k none {full} && exec {sys.executable} -"
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", mount], input=program.encode(), capture_output=True
    )
    assert done.returncode == 0, done.stderr
    assert b"No space left" in done.stderr
    assert 20 < len(assert_archive(done.stdout)) < 100


def big_capture(path: Path, exchanges: int, body_bytes: int) -> None:
    taker = Taker(path)
    on = taker.open()
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {body_bytes}\r\n\r\n".encode()
    for _ in range(exchanges):
        steps = [(WRITE, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"), (READ, head + bytes(body_bytes))]
        taker.pass_steps(on, list(steps))
    taker.close()


def mended(path: Path) -> list[dict[str, Any]]:
    """Return the entries of an archive as soon as it is one: the guard takes some milliseconds."""
    deadline = time.monotonic() + 10
    while True:
        try:
            return assert_archive(path.read_bytes())
        except ValueError:
            assert time.monotonic() < deadline
            time.sleep(0.01)


@pytest.mark.parametrize(("exchanges", "body_bytes"), [(4000, 300), (60, 1_000_000)])
def test_the_file_of_a_killed_sslsniff_is_whole(
    tmp_path: Path, exchanges: int, body_bytes: int
) -> None:
    capture, path = tmp_path / "big.pcapng", tmp_path / "a.har"
    big_capture(capture, exchanges, body_bytes)
    choose = random.Random(7)
    counts: set[int] = set()
    kills = 0
    while kills < 10 or len(counts) < 4:  # so that it is killed in different places
        kills += 1
        assert kills < 100
        path.unlink(missing_ok=True)
        with subprocess.Popen(
            [SSLSNIFF, "read", capture, "--har", path], stderr=subprocess.DEVNULL
        ) as process:
            deadline = time.monotonic() + 20
            while not (path.exists() and path.stat().st_size > 300):
                assert time.monotonic() < deadline
                time.sleep(0.001)
            time.sleep(choose.random() * 0.3)
            process.kill()
        counts.add(len(mended(path)))


def test_half_a_write_is_mended(tmp_path: Path) -> None:
    """What a kill leaves now and then, made for certain: half an entry over the end."""
    path = tmp_path / "a.har"
    program = f"""
import os, signal, sys
sys.path[:0] = {sys.path!r}
from pathlib import Path
from sslsniff.sinks.har import HarSink
from tests.unit.sinks.test_har import POST
with Path({str(path)!r}).open("wb") as file:
    sink = HarSink(file)
    sink.exchange(POST)
    pwrite = os.pwrite
    def half(fd, data, at):
        if fd != file.fileno():
            return pwrite(fd, data, at)
        pwrite(fd, data[: len(data) // 2], at)
        os.kill(os.getpid(), signal.SIGKILL)
    os.pwrite = half
    sink.exchange(POST)
"""
    done = subprocess.run([sys.executable, "-c", program])
    assert done.returncode == -signal.SIGKILL
    assert len(mended(path)) == 1


def test_from_the_command_line(tmp_path: Path) -> None:
    capture, path = tmp_path / "small.pcapng", tmp_path / "a.har"
    big_capture(capture, 3, 10)
    done = subprocess.run(
        [SSLSNIFF, "read", capture, "--har", path], capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr.split(",")[0]) == ("", "3 exchanges")
    assert len(assert_archive(path.read_bytes())) == 3
    assert path.stat().st_mode & 0o777 == 0o600
    again = subprocess.run(
        [SSLSNIFF, "read", capture, "--har", path], capture_output=True, text=True
    )
    assert (again.returncode, "exists already" in again.stderr) == (1, True)
    piped = subprocess.run(
        [SSLSNIFF, "read", capture, "--har", "-", "~c 200"], capture_output=True, check=True
    )
    assert len(assert_archive(piped.stdout)) == 3
    mixed = subprocess.run(
        [SSLSNIFF, "read", capture, "--har", "-", "--json"], capture_output=True, text=True
    )
    assert (mixed.returncode, mixed.stdout) == (1, "")
    assert "--har and text both go to standard output" in mixed.stderr
    both = [SSLSNIFF, "read", capture, "--har", tmp_path / "b", "--pcap", tmp_path / "b"]
    same = subprocess.run(both, capture_output=True, text=True)
    assert (same.returncode, "--pcap and --har both name" in same.stderr) == (1, True)


def test_a_reader_that_is_gone_is_told() -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as file, pytest.raises(BrokenPipeError):
        HarSink(file)
    with pytest.raises(OutputError), io.FileIO("/dev/full", "wb") as raw:
        HarSink(io.BufferedWriter(raw))
