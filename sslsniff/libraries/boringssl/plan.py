"""BoringSSL and AWS-LC, which have OpenSSL's interface."""

import re

from sslsniff.libraries.openssl.plan import (
    LIFE,
    OPENSSL,
    READ_ALONE,
    READ_EX,
    READ_PLAIN,
    WRITE_ALONE,
    WRITE_EX,
    WRITE_PLAIN,
)
from sslsniff.matching.rows import Plan, Row

_NUMBERS = ("rdi", "rsi", "rdx")
_ALERTS = ("rdi", "rdx", "rcx")
_SENDS = "_ZN4bssl14ssl_send_alertE{object}ii"
_RECEIVES = "_ZN4bssl17ssl_process_alertE{object}PhNS_4SpanIKh{size}EE"
_OBJECTS = ("P6ssl_st", "PNS_7SSLImplE")
_SIZES = ("", "Lm18446744073709551615E")
HANDSHAKE = Row(
    "SSL_do_handshake", "boringssl_handshake_enter", "boringssl_handshake_return", ("rdi",)
)
ERROR = Row("ERR_put_error", "boringssl_error_enter", registers=("rdi", "rdx"))
_FAILURES = (
    HANDSHAKE,
    ERROR,
    *(
        Row(_SENDS.format(object=each), "boringssl_alert_enter", registers=_NUMBERS)
        for each in _OBJECTS
    ),
    *(
        Row(_RECEIVES.format(object=each, size=size), "boringssl_received_enter", None, _ALERTS)
        for each in _OBJECTS
        for size in _SIZES
    ),
)
"""How handshakes fail. Two of the functions are in C++: a file has one of their names
(ssl/internal.h since 2017)."""

# BoringSSL has no SSL_sendfile, and does not call SSL_clear before a handshake. Only AWS-LC has the
# functions that end in _ex: they call the others, unless these are inlined.
BORINGSSL = Plan(
    library="boringssl",
    symbols=OPENSSL.symbols,
    marks=(
        "SSL_CTX_set_grease_enabled",
        "SSL_get_peer_signature_algorithm",
        "SSL_get0_peer_verify_algorithms",
    ),
    file_names=OPENSSL.file_names,
    required=(
        ((READ_PLAIN, READ_EX), (READ_ALONE,)),
        ((WRITE_PLAIN, WRITE_EX), (WRITE_ALONE,)),
    ),
    optional=(Row("SSL_new", leave="openssl_new_return"), *LIFE, *_FAILURES),
    mark_text=b"ssl/ssl_lib.cc\0",
    layout=OPENSSL.layout,
)

AWS_LC = BORINGSSL._replace(library="aws-lc", version=re.compile(rb"AWS-LC (\d+\.\d+\.\d+)\0"))
"""AWS-LC in files without symbols; with symbols it counts as BoringSSL, from which it comes."""
