"""What BoringSSL's errors say, and that its texts are its own names."""

import re
from pathlib import Path

import pytest

from sslsniff.core.handshakes import HandshakeFacts, explain
from sslsniff.core.library_failure import LibraryFailure
from sslsniff.decoders.messages import Side
from sslsniff.libraries.boringssl.failures import REASONS, failure


def test_what_it_says() -> None:
    assert failure(0, None) == failure(0, 0) == LibraryFailure()
    assert failure(1116, None) == failure(0, 1116) == LibraryFailure(received_alert=116)
    assert failure(0, 156) == LibraryFailure("plaintext", "http request", role=Side.SERVER)
    assert failure(0, 999) == LibraryFailure(None, "reason 999")


@pytest.mark.parametrize("kind", sorted({kind for kind, _ in REASONS.values() if kind}))
def test_kinds_are_explained(kind: str) -> None:
    assert explain(HandshakeFacts(kind=kind), None, None).is_failure


@pytest.mark.heavy
def test_reasons() -> None:
    """As the header of the crate says that ``make test-boringssl`` fetches."""
    headers = Path.home().glob(".cargo/registry/src/*/boring-sys-5*/deps/boringssl/include/openssl")
    header = next(headers, None)
    if header is None:
        pytest.skip("the crate was not fetched")
    text = (header / "ssl.h").read_text()
    named = {
        int(number): name.lower().replace("_", " ")
        for name, number in re.findall(r"#define SSL_R_(\w+) (\d+)", text)
    }
    assert {number: text for number, (_, text) in REASONS.items()}.items() <= named.items()
