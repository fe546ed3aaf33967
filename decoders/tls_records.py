"""Recognises TLS in a capture file: what is encrypted is named, and not searched for a protocol."""

import re

ENCRYPTED = "encrypted (TLS)"
"""The reason why bytes of TLS are undecoded."""

# RFC 8446 section 5.1: the type, a version from SSL 3.0 to what 1.3 writes, a length of up to
# 2^14 + 2048 (RFC 5246 section 6.2.3); a handshake begins with a hello.
_FIRST_RECORD = re.compile(
    rb"(?:\x16\x03[\0-\x03][\0-\x48].[\x01\x02]\0|[\x14\x15\x17]\x03[\0-\x03][\0-\x48].)", re.DOTALL
)


def begins_with_tls(data: bytes) -> bool:
    """Return whether the first bytes that were captured of a connection are TLS records."""
    return _FIRST_RECORD.match(data) is not None
