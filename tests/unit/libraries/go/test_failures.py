"""What the errors of Go's crypto/tls say, by the hashes of their types."""

import pytest

from sslsniff.core.handshakes import HandshakeFacts, explain
from sslsniff.core.library_failure import LibraryFailure
from sslsniff.libraries.go import failures
from sslsniff.libraries.go.failures import failure, rows, type_hashes


@pytest.mark.parametrize(
    ("name", "hashes"),
    [
        # As programs of Go 1.17, 1.18, 1.22 and 1.27 have them.
        ("*net.OpError", (0x8451F20B, 0x8451F20B, 0x3E4DF2A6, 0xC1B20DA6)),
        ("*crypto/tls.Config", (0x7977D676, None, None, None)),
    ],
)
def test_hashes(name: str, hashes: tuple[int | None, ...]) -> None:
    for found, expected in zip(type_hashes(name), hashes, strict=True):
        assert expected is None or found == expected


def test_rows_are_distinct() -> None:
    keys = [key for _, key, _ in rows()]
    distinct = {*keys}
    # A type whose name has no path has one hash up to Go 1.18.
    assert len(keys) - len(distinct) == sum("/" not in name for name in failures.ERRORS)
    assert len(distinct) <= 64  # the entries of go_errors in bpf/maps.bpf.h


@pytest.mark.parametrize(
    ("name", "number", "found"),
    [
        ("crypto/tls.alert", 0xABCDEF00 | 48, LibraryFailure(received_alert=48)),
        (
            "crypto/x509.UnknownAuthorityError",
            7,
            LibraryFailure("untrusted", "certificate signed by unknown authority"),
        ),
        (
            "crypto/x509.CertificateInvalidError",
            1,
            LibraryFailure("expired", "certificate has expired or is not yet valid"),
        ),
        ("crypto/x509.CertificateInvalidError", 99, LibraryFailure("bad_certificate", "reason 99")),
        (
            "crypto/tls.RecordHeaderError",
            int.from_bytes(b"GET ", "little"),
            LibraryFailure("plaintext", "first record does not look like a TLS handshake"),
        ),
        ("crypto/tls.RecordHeaderError", 0x00010316, LibraryFailure()),  # a record of TLS
        ("*net.OpError", 0, LibraryFailure()),
    ],
)
def test_what_an_error_says(name: str, number: int, found: LibraryFailure) -> None:
    for each in type_hashes(name):
        signed = each - (each >> 31 << 32)  # as the kernel reports it
        assert failure(signed, number) == found


def test_no_error() -> None:
    assert failure(0, None) == LibraryFailure()


@pytest.mark.parametrize("kind", sorted({kind for kind, _ in failures.REASONS.values()}))
def test_kinds_are_explained(kind: str) -> None:
    assert explain(HandshakeFacts(kind=kind), None, None).is_failure
