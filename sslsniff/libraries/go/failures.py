"""What the errors of Go's crypto/tls say of a handshake, by the types of their values.

An interface has the hash of its value's type. The compiler makes it of the type's name alone, so it
is the same in all programs of a release (src/cmd/compile/internal/types/fmt.go, TypeHash). An error
may be about another one: an alert is in a ``net.OpError``, and what was found of a certificate is
in a ``tls.CertificateVerificationError`` since Go 1.20.
"""

import struct
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from sslsniff.core.library_failure import LibraryFailure

_TABLE = "go_errors"
_ROW = struct.Struct("<iiQ")  # struct go_error of bpf/maps.bpf.h
_HASH = struct.Struct("<I")
_HASH_BITS = 32
_NONE = -1

_ALERT = "crypto/tls.alert"
_HEADER = "crypto/tls.RecordHeaderError"
_INVALID = "crypto/x509.CertificateInvalidError"


class GoError(NamedTuple):
    """A type of errors.

    ``inner``: the offset of the error that it is about; None: there is none.
    ``number``: the offset of what distinguishes it from others of its type.
    ``text_bytes``: it counts only if its first text has this length; 0: it always does.
    """

    inner: int | None = None
    number: int = 0
    text_bytes: int = 0


ERRORS: dict[str, GoError] = {
    # Op, Net, Source, Addr, Err; those of alerts that were sent have another Op
    "*net.OpError": GoError(inner=64, text_bytes=len("remote error")),
    "*crypto/tls.permanentError": GoError(inner=0),
    "*crypto/tls.CertificateVerificationError": GoError(inner=24),  # after a slice
    _ALERT: GoError(),
    _HEADER: GoError(number=16),  # RecordHeader, after Msg
    _INVALID: GoError(number=8),  # Reason, after Cert
    "crypto/x509.UnknownAuthorityError": GoError(),
    "crypto/x509.HostnameError": GoError(),
    "crypto/x509.SystemRootsError": GoError(),
}
"""A type -> its form, the same in all releases since 1.16."""

CERTIFICATES: dict[str, tuple[str, str]] = {
    "crypto/x509.UnknownAuthorityError": ("untrusted", "certificate signed by unknown authority"),
    "crypto/x509.HostnameError": ("wrong_name", "certificate is not valid for that name"),
    "crypto/x509.SystemRootsError": ("untrusted", "failed to load system roots"),
}
"""A type -> the kind of failure, and Go's text."""

REASONS: dict[int, tuple[str, str]] = {
    0: ("bad_certificate", "certificate is not authorized to sign other certificates"),
    1: ("expired", "certificate has expired or is not yet valid"),
    2: ("bad_certificate", "certificate is not authorized to sign for this name"),
    3: ("bad_certificate", "too many intermediates for path length constraint"),
    4: ("bad_certificate", "certificate specifies an incompatible key usage"),
    5: ("untrusted", "issuer name does not match subject from issuing certificate"),
}
"""``x509.InvalidReason`` of a ``CertificateInvalidError`` -> the same."""

_TLS_RECORDS = range(20, 25)
_FIRST_BYTE = 0xFF


def failure(error: int, number: int | None) -> LibraryFailure:
    """Return what an error says by the hash of its type, 0 if there was none, and its number."""
    name = _names().get(error % (1 << _HASH_BITS))
    number = number or 0
    if name == _ALERT:
        return LibraryFailure(received_alert=number & _FIRST_BYTE)
    if name == _HEADER and number and number & _FIRST_BYTE not in _TLS_RECORDS:
        return LibraryFailure("plaintext", "first record does not look like a TLS handshake")
    if name == _INVALID:
        return LibraryFailure(*REASONS.get(number, ("bad_certificate", f"reason {number}")))
    return LibraryFailure(*CERTIFICATES.get(name or "", ()))


def rows() -> Iterator[tuple[str, bytes, bytes]]:
    """Yield the rows by which the BPF programs follow errors: the table, the key, the value."""
    for name, form in ERRORS.items():
        inner = _NONE if form.inner is None else form.inner
        for number in type_hashes(name):
            yield _TABLE, _HASH.pack(number), _ROW.pack(inner, form.number, form.text_bytes)


def type_hashes(name: str) -> tuple[int, ...]:
    """Return the hashes of a type in all releases.

    Up to Go 1.17, of its name with that of its package; then with the package's whole path, by
    three functions: up to 1.18, up to 1.23, and since.
    """
    import hashlib  # only where a Go program is watched

    sha256 = hashlib.sha256(name.encode()).digest()
    oldest = name.replace("crypto/", "")
    of_all = (
        *(hashlib.md5(each.encode(), usedforsecurity=False).digest() for each in (oldest, name)),
        bytes(each ^ 0xFF for each in sha256),
        bytes([sha256[0] ^ 0xFF]) + sha256[1:],
    )
    return tuple(_HASH.unpack_from(each)[0] for each in of_all)


@cache
def _names() -> dict[int, str]:
    return {each: name for name in ERRORS for each in type_hashes(name)}
