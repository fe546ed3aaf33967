"""The line of a secret, from what a probe fetched."""

import io
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sslsniff.capture.secret_fetch import fetch_secret, read_secret
from sslsniff.core.logged_secret import LoggedSecret
from sslsniff.matching.key_log.chains import Chain
from sslsniff.matching.probe_set import KeyLogPlace
from sslsniff.outputs.keylog.key_log_file import KeyLogFile

DATA = struct.Struct("<40s32sQ64s")


def fetched(label: bytes, random: bytes, size: int, secret: bytes) -> bytes:
    return DATA.pack(label, random, size, secret)


def test_a_line() -> None:
    data = fetched(b"CLIENT_RANDOM\0rest", bytes(range(32)), 48, b"\xab" * 64)
    secret = read_secret(data, 0)
    assert str(secret) == f"CLIENT_RANDOM {bytes(range(32)).hex()} {'ab' * 48}"


def test_what_is_fetched_fits() -> None:
    place = KeyLogPlace(0, Chain("rsi"), None, Chain("rdi", (8,), 9), Chain("rdx"), Chain("rcx"))
    assert fetch_secret(place).data_bytes == DATA.size
    assert fetch_secret(place._replace(label_size=Chain("rsp", (0,)))).data_bytes == DATA.size


def test_what_could_not_be_read_is_no_secret() -> None:
    whole = fetched(b"CLIENT_RANDOM", b"r" * 32, 48, b"s" * 64)
    assert read_secret(whole, 0b100) is None
    assert read_secret(whole[:-1], 0) is None
    assert read_secret(fetched(b"CLIENT_RANDOM", b"r" * 32, 65, b"s" * 64), 0) is None
    assert read_secret(fetched(b"CLIENT_RANDOM", b"r" * 32, 0, b"s" * 64), 0) is None


@pytest.mark.tools
@given(st.binary(max_size=200), st.integers(0, 15))
def test_any_bytes_are_one_line_or_none(data: bytes, failed: int) -> None:
    secret = read_secret(data, failed)
    if secret is not None:
        label, random, value = str(secret).split(" ")
        assert label.isupper()
        assert len(bytes.fromhex(random)) == 32
        assert 0 < len(bytes.fromhex(value)) <= 64


def test_a_secret_is_written_once() -> None:
    file = io.BytesIO()
    log = KeyLogFile(file, "keys")
    secret = LoggedSecret("CLIENT_RANDOM", bytes(32), bytes(48))
    log.write(secret, 1)
    log.write(secret, 1)
    log.write(secret._replace(label="EXPORTER_SECRET"), 1)
    assert len(file.getvalue().splitlines()) == 2
    assert log.describe(0) == "wrote 2 secrets to keys"
    assert log.describe(3) == "wrote 2 secrets to keys, 3 lost"
