"""Bodies of gRPC-Web: trailers inside them, and base64 (PROTOCOL-WEB.md of gRPC)."""

import base64
import random
import struct

import pytest

from tests.unit.captures import READ, REQUEST, WRITE, Step
from tests.unit.redaction.test_redaction import joined, redact
from tests.unit.redaction.traffic import cut

SECRET = b"s3cr3t.value"
MESSAGE = struct.pack(">BI", 0, 7) + b"\n\5shown"


def trailers(*fields: bytes) -> bytes:
    text = b"".join(field + b"\r\n" for field in fields)
    return struct.pack(">BI", 0x80, len(text)) + text


def answer(kind: str, body: bytes) -> list[Step]:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return [(WRITE, REQUEST), (READ, head.encode() + body)]


def shown(steps: list[Step], seed: int) -> bytes:
    received, _ = redact(cut(steps, random.Random(seed)) if seed else steps)
    return received.plaintext(READ)


NAMES = [b"x-auth-token", b"authorization", b"Set-Cookie", b"x-token-bin", b"x-auth"]


@pytest.mark.heavy
@pytest.mark.parametrize("before", [b"", MESSAGE, MESSAGE * 40, b"\0\0\0\0\3\x80\0\n"])
@pytest.mark.parametrize("name", NAMES)
def test_the_first_trailer_is_a_field(name: bytes, before: bytes) -> None:
    for size in range(300):  # so that the length of the trailers is any byte
        field = name + b": " + SECRET
        body = before + trailers(field, b"x-shown: " + b"y" * size)
        expected = body.replace(SECRET, b"*" * len(SECRET))
        assert shown(answer("application/grpc-web+proto", body), 0).endswith(expected)
        assert shown(answer("application/grpc-web+proto", body), size + 1).endswith(expected)


@pytest.mark.heavy
@pytest.mark.parametrize("size", [0, 0x0A00, 0x0A0A, 0x8000, 0x8080, 0x41_41, 0x10000])
def test_the_length_of_trailers_may_be_text(size: int) -> None:
    for more in range(-60, 200, 7):
        fields = b"x-auth-token: " + SECRET, b"y: " + b"y" * max(0, size + more)
        body = MESSAGE + trailers(*fields)
        assert SECRET not in shown(answer("application/grpc-web", body), max(0, more))


def test_trailers_that_are_no_secret_stay() -> None:
    body = MESSAGE + trailers(b"grpc-status: 0", b"x-shown: y")
    steps = answer("application/grpc-web", body)
    for seed in range(20):
        assert shown(steps, seed) == joined(steps, READ)


@pytest.mark.parametrize("kind", ["application/grpc-web-text", "Application/gRPC-Web-Text+proto"])
def test_base64_is_blanked(kind: str) -> None:
    body = base64.b64encode(MESSAGE + trailers(b"x-auth-token: " + SECRET))
    steps = answer(kind, body)
    for seed in range(20):
        assert shown(steps, seed) == joined(steps, READ).replace(body, b"*" * len(body))
