"""What people read of TLS libraries: data only."""

from sslsniff.libraries.unprobed import FAMILY, GO, KINDS

NAMES = {each.library: each.name for each in (*KINDS, *FAMILY, GO)} | {
    "gnutls": "GnuTLS",
    "nss": "NSS",
    "rustls": "rustls",
}
"""A library's name for programs -> its name for people."""

FOUND_BY = dict.fromkeys(NAMES, "symbols") | {
    "go": "function table",
    "nss": "method tables",
    "rustls": "methods of ciphers",
}
"""A library's name for programs -> how its plan finds the functions to probe."""
