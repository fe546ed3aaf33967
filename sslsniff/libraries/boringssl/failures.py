"""What the numbers of BoringSSL's errors say of a handshake (openssl/ssl.h).

The texts are those of BoringSSL's names. AWS-LC has the same numbers.
"""

from sslsniff.core.library_failure import LibraryFailure

_ALERTS = range(1000, 1256)
"""SSL_AD_REASON_OFFSET and the number of an alert that was received."""

REASONS: dict[int, tuple[str | None, str]] = {
    114: (None, "bad signature"),
    125: ("bad_certificate", "certificate verify failed"),
    155: ("plaintext", "https proxy request"),
    156: ("plaintext", "http request"),
    175: ("no_shared_cipher", "no ciphers available"),
    184: ("no_shared_cipher", "no shared cipher"),
    192: ("client_certificate", "peer did not return a certificate"),
    233: ("no_shared_version", "unknown protocol"),
    240: ("no_shared_version", "unsupported protocol"),
    246: ("no_shared_version", "wrong ssl version"),
    247: (None, "wrong version number"),
    253: ("refused", "no common signature algorithms"),
    266: ("refused", "no shared group"),
    280: ("no_shared_version", "no supported versions enabled"),
    307: ("no_shared_protocol", "no application protocol"),
}
"""A reason -> the kind of failure, None if the alert says it, and its text."""

_OF_SERVERS = (156, 184, 192)
"""Reasons that only a server has."""


def failure(error: int, reason: int | None) -> LibraryFailure:
    """Return what a received alert says (``error``, 0: none), and a handshake's first reason."""
    for number in (error, reason or 0):
        if number in _ALERTS:
            return LibraryFailure(received_alert=number - _ALERTS.start)
    if not reason:
        return LibraryFailure()
    from sslsniff.decoders.messages import Side  # not where probes are planned

    kind, text = REASONS.get(reason, (None, f"reason {reason}"))
    return LibraryFailure(kind, text, role=Side.SERVER if reason in _OF_SERVERS else None)
