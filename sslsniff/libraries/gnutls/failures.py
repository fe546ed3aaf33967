"""What GnuTLS's session says of a handshake: an alert, and flags of the certificate.

The flags are ``gnutls_certificate_status_t`` (gnutls/gnutls.h).
"""

from sslsniff.core.library_failure import LibraryFailure

FLAGS: tuple[tuple[int, str, str], ...] = (
    (1 << 14, "wrong_name", "the name in the certificate does not match the expected"),
    (1 << 10, "expired", "the certificate chain uses expired certificate"),
    (1 << 9, "expired", "the certificate chain uses not yet valid certificate"),
    (1 << 5, "bad_certificate", "the certificate chain is revoked"),
    (1 << 6, "untrusted", "the certificate issuer is unknown"),
    (1 << 7, "untrusted", "the certificate issuer is not a CA"),
    (1 << 8, "bad_certificate", "the certificate chain uses insecure algorithm"),
    (1 << 1, "bad_certificate", "the certificate is NOT trusted"),
)
"""The most telling flag first: GnuTLS sets several. A flag, the kind of failure, GnuTLS's text."""


def failure(alert: int, verified: int | None) -> LibraryFailure:
    """Return what the alert received last (0: none) and the flags say."""
    for flag, kind, text in FLAGS:
        if (verified or 0) & flag:
            return LibraryFailure(kind, text, alert or None)
    return LibraryFailure(received_alert=alert or None)
