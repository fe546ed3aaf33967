"""Which parts of a path are ids."""

import pytest

from sslsniff.statistics.path_patterns import MARK, UNKNOWN, path_pattern, raw_path
from tests.unit.linear import Spent


@pytest.mark.parametrize(
    ("target", "pattern"),
    [
        ("/", "/"),
        ("/orders/1042/items/7?page=2", "/orders/{}/items/{}"),
        ("/users/0F2A6A4E-9f4c-4ba1-8d5a-6b1c2d3e4f50/keys", "/users/{}/keys"),
        ("/objects/da39a3ee5e6b4b0d3255bfef95601890afd80709", "/objects/{}"),
        ("/static/main.3f2a9c1b.js", "/static/main.{}.js"),
        ("/blobs/sha256:9f86d081884c7d65", "/blobs/sha{}"),
        ("/log/2026-11-25T05:00:00.5Z.txt", "/log/{}.txt"),
        ("/days/2026-11-25/10.1.2.3", "/days/{}/{}"),
        ("/watch/dQw4w9WgXcQ", "/watch/{}"),
        ("/runs/01HF3Z8Y7Q2V9X4M5N6P7R8S9T", "/runs/{}"),
        ("/v1/responses/resp_0a1b2c3d4e5f", "/v1/responses/resp_{}"),
        ("/file00017.bin", "/file{}.bin"),
        ("/jwt/" + "abcDEF" * 8, "/jwt/{}"),
        ("/%E4%B8%AD%E6%96%87", "/{}"),
        ("/a;id=12/b", "/a;id={}/b"),
    ],
)
def test_ids_become_places(target: str, pattern: str) -> None:
    assert path_pattern(target) == pattern


@pytest.mark.parametrize(
    "target",
    [
        "/v1/chat/completions",
        "/v1beta/models/gemini-pro:generateContent",
        "/demo.Greeter/SayHello",
        "/oauth2/callback",
        "/http2/p50.html",
        "/deadbeef/facade",  # words, as far as one can tell
        "/internationalisation",
        "/~user/a_b/x+y",
        "*",
        "example.org",
    ],
)
def test_words_stay(target: str) -> None:
    assert path_pattern(target) == target


@pytest.mark.parametrize(
    ("target", "pattern"),
    [
        (None, UNKNOWN),
        ("", UNKNOWN),
        ("?a=1", "/"),
        ("http://h:80/a/1234?b", "/a/{}"),
        ("http://h", "/"),
        ("http://h?x=/y", "/"),
        ("example.org:443", "example.org:{}"),
        ("/\x1b]0;gone\x07\u202e", "/\x1b]{};gone\x07\u202e"),
        ("/\u0661\u0662\u0663\u0664", "/\u0661\u0662\u0663\u0664"),  # digits, but not of ASCII
    ],
)
def test_odd_targets(target: str | None, pattern: str) -> None:
    assert path_pattern(target) == pattern


@pytest.mark.parametrize(
    "part", ["1a", "/9", "a" * 40 + "/", "%41", "-", "0" * 7 + "g", "{}", "\udc80"]
)
def test_long_targets_are_bounded(part: str) -> None:
    target = "/" + part * (10_000_000 // len(part))
    spent = Spent()
    pattern = path_pattern(target)
    assert spent.units() < 100_000
    assert len(pattern) <= 160
    assert len(pattern) < 160 or pattern.endswith(MARK)


def test_ten_thousand_ids_are_one_pattern() -> None:
    assert {path_pattern(f"/orders/{n}/items/{n * n}") for n in range(10_000)} == {
        "/orders/{}/items/{}"
    }


@pytest.mark.parametrize(
    ("target", "path"),
    [
        (None, None),
        ("", None),
        ("/orders/1042/items/7", "/orders/1042/items/7"),
        ("/orders/1042?a=b", "/orders/1042"),
        ("?a", "/"),
        ("https://example.org/a/17?b", "/a/17"),
        ("https://example.org", "/"),
        ("*", "*"),
        ("/" + "x" * 300 + "/sku-17", "/" + "x" * 105 + "…" + "x" * 46 + "/sku-17"),
    ],
)
def test_raw_paths(target: str | None, path: str | None) -> None:
    assert raw_path(target) == path
    assert len(path or "") <= 160
