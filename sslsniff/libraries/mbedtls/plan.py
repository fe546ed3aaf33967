"""Mbed TLS 2.16 to 3.6.

``mbedtls_ssl_write`` sends at most one record, and its result says how much of the buffer that was.
A call that would block is repeated with the same bytes (library/ssl_msg.c). Neither function calls
the other, nor those for early data.
"""

import re

from sslsniff.matching.rows import Plan, Row

_OBJECT = ("rdi",)
_PLAIN = ("rdi", "rsi")

MBEDTLS = Plan(
    library="mbedtls",
    symbols=("mbedtls_ssl_read", "mbedtls_ssl_write", "mbedtls_ssl_setup"),
    marks=(),
    file_names=("libmbedtls.so", "libmbedtls-"),
    required=(
        ((Row("mbedtls_ssl_read", "c_read_plain_enter", "c_return", _PLAIN),),),
        ((Row("mbedtls_ssl_write", "c_write_plain_enter", "c_return", _PLAIN),),),
    ),
    optional=(
        Row("mbedtls_ssl_read_early_data", "c_read_plain_enter", "c_return", _PLAIN),
        Row(
            "mbedtls_ssl_write_early_data",
            "c_write_plain_enter",
            "c_return",
            _PLAIN,
            through=("mbedtls_ssl_write",),
        ),
        Row("mbedtls_ssl_handshake", "c_handshake_enter", registers=_OBJECT),
        Row("mbedtls_ssl_handshake_step", "c_handshake_enter", registers=_OBJECT),
        Row("mbedtls_ssl_free", "openssl_free_enter", registers=_OBJECT),
        Row("mbedtls_ssl_session_reset", "openssl_clear_enter", registers=_OBJECT),
    ),
    version=re.compile(rb"[Mm]bed TLS (\d+\.\d+\.\d+)\0"),
)
