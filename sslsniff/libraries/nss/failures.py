"""What the numbers of NSS's errors say of a handshake (nss/sslerr.h, nss/secerr.h).

They are negative there; here they are numbers without a sign. The texts are the names of the
errors; tests compare them with the installed library's. Only the preloaded library knows errors:
probes know alerts.
"""

from sslsniff.core.library_failure import LibraryFailure

ALERTS: dict[int, int] = {
    12107: 116,
    12145: 109,
    12157: 86,
    12180: 114,
    12181: 113,
    12182: 112,
    12183: 111,
    12184: 110,
    12186: 100,
    12187: 90,
    12188: 80,
    12189: 71,
    12190: 70,
    12191: 60,
    12192: 51,
    12193: 50,
    12194: 49,
    12195: 48,
    12196: 22,
    12197: 21,
    12224: 46,
    12225: 43,
    12226: 47,
    12227: 40,
    12228: 30,
    12229: 10,
    12230: 0,
    12269: 45,
    12270: 44,
    12271: 42,
    12272: 20,
}
"""An error -> the alert that was received (``ssl3_HandleAlert`` in ``lib/ssl/ssl3con.c``)."""

REASONS: dict[int, tuple[str | None, str]] = {
    8016: ("bad_certificate", "SEC_ERROR_CERT_SIGNATURE_ALGORITHM_DISABLED"),
    8046: ("bad_certificate", "SEC_ERROR_REVOKED_CERTIFICATE_OCSP"),
    8047: ("bad_certificate", "SEC_ERROR_REVOKED_CERTIFICATE_CRL"),
    8101: ("bad_certificate", "SEC_ERROR_INADEQUATE_CERT_TYPE"),
    8156: ("bad_certificate", "SEC_ERROR_CA_CERT_INVALID"),
    8162: ("expired", "SEC_ERROR_EXPIRED_ISSUER_CERTIFICATE"),
    8171: ("untrusted", "SEC_ERROR_UNTRUSTED_CERT"),
    8172: ("untrusted", "SEC_ERROR_UNTRUSTED_ISSUER"),
    8179: ("untrusted", "SEC_ERROR_UNKNOWN_ISSUER"),
    8180: ("bad_certificate", "SEC_ERROR_REVOKED_CERTIFICATE"),
    8181: ("expired", "SEC_ERROR_EXPIRED_CERTIFICATE"),
    8182: ("bad_certificate", "SEC_ERROR_BAD_SIGNATURE"),
    12158: ("no_shared_protocol", "SSL_ERROR_NEXT_PROTOCOL_NO_PROTOCOL"),
    12265: ("no_shared_cipher", "SSL_ERROR_NO_CIPHERS_SUPPORTED"),
    12276: ("wrong_name", "SSL_ERROR_BAD_CERT_DOMAIN"),
    12279: ("no_shared_version", "SSL_ERROR_UNSUPPORTED_VERSION"),
    12284: ("bad_certificate", "SSL_ERROR_BAD_CERTIFICATE"),
    12285: ("client_certificate", "SSL_ERROR_NO_CERTIFICATE"),
    12286: (None, "SSL_ERROR_NO_CYPHER_OVERLAP"),
}
"""An error -> the kind of failure, None if the alert says it, and its name. The last one is also
that of a client which received alert 40, whatever that was sent for."""


def failure(alert: int, error: int | None) -> LibraryFailure:
    """Return what an alert that was received (0: none), and the library's last error say."""
    if error in ALERTS:
        return LibraryFailure(received_alert=ALERTS[error])
    kind, text = (None, None) if error is None else REASONS.get(error, (None, f"error -{error}"))
    return LibraryFailure(kind, text, alert or None)
