"""TLS with a NULL cipher: what is put around plaintext comes off again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sslsniff.files.null_tls import (
    CHANGE_CIPHER_SPEC,
    LARGEST_RECORD_BYTES,
    Hello,
    Unwrapper,
    client_hello,
    is_null_record,
    read_hello,
    record_header,
    server_hello,
)


def record(data: bytes) -> bytes:
    return record_header(len(data)) + data + bytes(16)


@pytest.mark.parametrize("sni", [None, "example.org", "b\u00fccher.example"])
@pytest.mark.parametrize("alpn", [None, "h2"])
@pytest.mark.parametrize("from_start", [True, False])
def test_hello(sni: str | None, alpn: str | None, from_start: bool) -> None:
    assert read_hello(client_hello(sni, alpn, from_start)) == Hello(True, sni, alpn, from_start)
    assert read_hello(server_hello(alpn)) == Hello(True, None, alpn)


def test_hello_that_is_not_all_there() -> None:
    hello = client_hello("example.org", "h2", True)
    for cut in range(1, len(hello)):
        with pytest.raises(IndexError):
            read_hello(hello[:cut])


def test_other_sessions() -> None:
    assert read_hello(b"GET / HTTP/1.1\r\n") is None
    assert read_hello(b"\x16\x04\x01\0\x10\1" + bytes(20)) is None
    assert read_hello(b"\x16\x03\x01\0\x10\x0b" + bytes(20)) is None
    real = bytearray(client_hello("example.org", "h2", True))
    real[real.index(b"\0\2\0\1") + 3] = 0x2F
    assert read_hello(bytes(real)) == Hello(False, "example.org", "h2")


@pytest.mark.tools
@given(st.binary(max_size=80))
def test_any_hello(body: bytes) -> None:
    for kind in (1, 2):
        message = bytes([kind]) + len(body).to_bytes(3) + body
        read_hello(b"\x16\x03\x03" + len(message).to_bytes(2) + message)


def test_records_are_recognised_without_their_handshake() -> None:
    assert is_null_record(record(b"data") + b"more")
    assert not is_null_record(record(b"data")[:-1] + b"x")
    assert not is_null_record(record(b"data")[:-1])
    assert not is_null_record(b"")


@pytest.mark.tools
@given(
    st.lists(st.binary(min_size=1, max_size=40), max_size=10),
    st.integers(1, 30),
)
def test_any_pieces(plain: list[bytes], size: int) -> None:
    stream = client_hello("example.org", None, True) + CHANGE_CIPHER_SPEC
    stream += b"".join(map(record, plain))
    unwrapper = Unwrapper()
    seen = []
    for start in range(0, len(stream), size):
        seen += unwrapper.feed(stream[start : start + size])
    assert seen == plain


def test_gap_of_a_record() -> None:
    unwrapper = Unwrapper()
    assert unwrapper.feed(record(b"before")) == [b"before"]
    assert unwrapper.gap(len(record(b"lost data"))) == len(b"lost data")
    assert unwrapper.feed(record(b"after")) == [b"after"]
    assert unwrapper.gap(5) == 0


def test_gap_in_a_record() -> None:
    unwrapper = Unwrapper()
    assert unwrapper.feed(record(b"before")[:10]) == []
    assert unwrapper.gap(100) == 110 - 21
    assert unwrapper.feed(b"rest of some record") == []
    assert unwrapper.feed(record(b"after")) == [b"after"]


@pytest.mark.tools
@given(st.lists(st.binary(max_size=100), max_size=20))
def test_any_bytes_and_bounded(pieces: list[bytes]) -> None:
    unwrapper = Unwrapper()
    for piece in pieces:
        unwrapper.feed(piece)
    assert len(unwrapper._partial) <= LARGEST_RECORD_BYTES + 2048 + 5
