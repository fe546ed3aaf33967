"""What the numbers of OpenSSL's errors say of a handshake (openssl/sslerr.h, x509_vfy.h).

The texts are those of OpenSSL itself; tests compare them with the installed library's.
"""

from sslsniff.core.library_failure import LibraryFailure

_ALERTS = range(1000, 1256)
"""SSL_AD_REASON_OFFSET and the number of an alert that was received."""

_NONE = 0
"""The program gave the connection up, perhaps because of the certificate."""
_VERIFY_FAILED = 134
REASONS: dict[int, tuple[str | None, str]] = {
    101: ("refused", "no suitable key share"),
    118: ("refused", "no suitable signature algorithm"),
    123: (None, "bad signature"),
    134: ("bad_certificate", "certificate verify failed"),
    155: ("plaintext", "https proxy request"),
    156: ("plaintext", "http request"),
    166: ("no_shared_version", "version too high"),
    181: ("no_shared_cipher", "no ciphers available"),
    191: ("no_shared_version", "no protocols available"),
    193: ("no_shared_cipher", "no shared cipher"),
    198: ("plaintext", "packet length too long"),
    199: ("client_certificate", "peer did not return a certificate"),
    234: (None, "callback failed"),
    235: ("no_shared_protocol", "no application protocol"),
    252: ("no_shared_version", "unknown protocol"),
    258: ("no_shared_version", "unsupported protocol"),
    266: ("no_shared_version", "wrong ssl version"),
    267: (None, "wrong version number"),
    281: (None, "decryption failed or bad record mac"),
    294: ("closed_by_peer", "unexpected eof while reading"),
    338: ("no_shared_version", "unsafe legacy renegotiation disabled"),
    376: ("refused", "no shared signature algorithms"),
    394: ("refused", "dh key too small"),
    396: ("no_shared_version", "version too low"),
    397: ("bad_certificate", "ca key too small"),
    398: ("bad_certificate", "ca md too weak"),
    399: ("bad_certificate", "ee key too small"),
    410: ("refused", "no shared groups"),
    443: ("plaintext", "bad record type"),
}
"""A reason -> the kind of failure, None if the alert says it, and OpenSSL's text."""

_OF_SERVERS = (156, 193, 199)
"""Reasons that only a server has."""

VERIFICATION: dict[int, tuple[str, str]] = {
    2: ("untrusted", "unable to get issuer certificate"),
    7: ("bad_certificate", "certificate signature failure"),
    9: ("expired", "certificate is not yet valid"),
    10: ("expired", "certificate has expired"),
    18: ("untrusted", "self-signed certificate"),
    19: ("untrusted", "self-signed certificate in certificate chain"),
    20: ("untrusted", "unable to get local issuer certificate"),
    21: ("untrusted", "unable to verify the first certificate"),
    22: ("bad_certificate", "certificate chain too long"),
    23: ("bad_certificate", "certificate revoked"),
    26: ("bad_certificate", "unsuitable certificate purpose"),
    27: ("untrusted", "certificate not trusted"),
    28: ("bad_certificate", "certificate rejected"),
    50: ("bad_certificate", "application verification failure"),
    62: ("wrong_name", "hostname mismatch"),
    64: ("wrong_name", "IP address mismatch"),
    66: ("bad_certificate", "EE certificate key too weak"),
    67: ("bad_certificate", "CA certificate key too weak"),
    68: ("bad_certificate", "CA signature digest algorithm too weak"),
    79: ("bad_certificate", "invalid CA certificate"),
}
"""A result of verification -> the same."""


_SENT_ALERTS = {
    2: 48,
    7: 51,
    10: 45,
    18: 48,
    19: 48,
    20: 48,
    21: 48,
    22: 48,
    23: 44,
    26: 43,
    50: 40,
    79: 48,
}
"""A result of verification -> the alert that OpenSSL sends for it, if that is not 42, bad
certificate (``x509table`` in ``ssl/statem/statem_lib.c``)."""
_BAD_CERTIFICATE = 42


def failure(error: int, verified: int | None) -> LibraryFailure:
    """Return what a reason says; ``verified``: the result of verifying the peer's certificate."""
    if error in _ALERTS:
        return LibraryFailure(received_alert=error - _ALERTS.start)
    if error in (_NONE, _VERIFY_FAILED) and verified in VERIFICATION:
        sent = _SENT_ALERTS.get(verified, _BAD_CERTIFICATE) if error else None
        return LibraryFailure(*VERIFICATION[verified], sent_alert=sent)
    if error in REASONS:
        from sslsniff.decoders.messages import Side  # not where probes are planned

        role = Side.SERVER if error in _OF_SERVERS else None
        return LibraryFailure(*REASONS[error], role=role)
    return LibraryFailure(text=f"reason {error}" if error else None)
