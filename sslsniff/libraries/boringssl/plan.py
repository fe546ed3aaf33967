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
    optional=(Row("SSL_new", leave="openssl_new_return"), *LIFE),
    mark_text=b"ssl/ssl_lib.cc\0",
    layout=OPENSSL.layout,
)

AWS_LC = BORINGSSL._replace(library="aws-lc", version=re.compile(rb"AWS-LC (\d+\.\d+\.\d+)\0"))
"""AWS-LC in files without symbols; with symbols it counts as BoringSSL, from which it comes."""
