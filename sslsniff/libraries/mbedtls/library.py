"""What is known of Mbed TLS."""

from sslsniff.libraries.mbedtls.plan import MBEDTLS
from sslsniff.matching.library import Library, without_symbols

LIBRARY = Library(
    id="mbedtls",
    name="Mbed TLS",
    plan=MBEDTLS,
    unprobed=without_symbols(
        "mbedtls",
        "Mbed TLS",
        (
            b"ssl_check_pending: application data record is being processed\0",
            b"mbedtls_ssl_fetch_input\0",
        ),
        version=MBEDTLS.version,
    ),
    no_key_log="Mbed TLS makes secrets known only to a program that asks for them",
)
