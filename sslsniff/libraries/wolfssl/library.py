"""What is known of wolfSSL."""

from sslsniff.libraries.wolfssl.plan import WOLFSSL
from sslsniff.matching.library import Library, without_symbols

LIBRARY = Library(
    id="wolfssl",
    name="wolfSSL",
    plan=WOLFSSL,
    unprobed=without_symbols(
        "wolfssl",
        "wolfSSL",
        (
            b"Finished received from peer before Change Cipher Error\0",
            b"weird handshake type\0",
        ),
        version=WOLFSSL.version,
    ),
    no_key_log="wolfSSL makes secrets known only to a program that asks for them",
)
