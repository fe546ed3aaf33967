"""HTTP Archives: the table of their form, and exchanges to be written into one."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from sslsniff.core.model import Exchange
from sslsniff.outputs.har.archive import HarSink
from tests.unit.exchanges import exchange, request, response

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
