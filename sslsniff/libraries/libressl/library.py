"""What is known of LibreSSL."""

from sslsniff.libraries.libressl.plan import LIBRESSL
from sslsniff.libraries.openssl.library import FAMILY_TEXT
from sslsniff.matching.library import Library, without_symbols

LIBRARY = Library(
    id="libressl",
    name="LibreSSL",
    plan=LIBRESSL,
    unprobed=without_symbols(
        "libressl", "LibreSSL", (FAMILY_TEXT, b"LibreSSL "), version=LIBRESSL.version
    ),
    no_key_log="LibreSSL has no key log",
)
