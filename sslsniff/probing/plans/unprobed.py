"""TLS libraries that have no probes, and what proves that a file has one of them: data only.

A shared library exports functions of its own. One that is linked into a program and stripped has
none, but still the texts of its errors. A text counts only if no program has it that merely uses
the library, or has another part of it: ``libcrypto`` has no file ``ssl/ssl_lib.c``.
"""

import re
from typing import NamedTuple

WITH_SYMBOLS = "build it with symbols, or install its debug file"

_NO_PROBES = "sslsniff cannot probe it yet"
_NO_SYMBOLS = "it is linked in without symbols"
_OTHER_END = "watch the other end of its connections"


class UnprobedLibrary(NamedTuple):
    """A TLS library, how people call it, and why it is not probed.

    A file that exports all ``exports`` has it, and so has one with all ``texts`` in its read-only
    data and without the text ``unless``. The first is searched in every file: the longer it is, the
    less time that takes. ``version`` finds the library's in that data.
    """

    library: str
    name: str
    exports: tuple[str, ...] = ()
    texts: tuple[bytes, ...] = ()
    unless: bytes | None = None
    version: re.Pattern[bytes] | None = None
    reason: str = _NO_PROBES
    remedy: str = _OTHER_END


KINDS = (
    UnprobedLibrary(
        library="nss",
        name="NSS",
        exports=("SSL_ImportFD", "SSL_SetURL"),
        version=re.compile(rb"Version: NSS (\d[\d.]*)"),
    ),
    UnprobedLibrary(
        library="wolfssl",
        name="wolfSSL",
        exports=("wolfSSL_read", "wolfSSL_write"),
        texts=(
            b"Finished received from peer before Change Cipher Error\0",
            b"weird handshake type\0",
        ),
        version=re.compile(rb"wolfSSL (\d+\.\d+\.\d+)\0"),
    ),
    UnprobedLibrary(
        library="mbedtls",
        name="Mbed TLS",
        exports=("mbedtls_ssl_read", "mbedtls_ssl_write"),
        texts=(
            b"ssl_check_pending: application data record is being processed\0",
            b"mbedtls_ssl_fetch_input\0",
        ),
    ),
    UnprobedLibrary(
        library="s2n",
        name="s2n-tls",
        exports=("s2n_send", "s2n_connection_new"),
        texts=(b"Retried s2n_send() size is invalid\0", b"/s2n_connection.c:"),
    ),
    # The classes of JSSE are in a file of their own, which no process maps as code.
    UnprobedLibrary(
        library="jsse",
        name="Java (JSSE)",
        exports=("JNI_CreateJavaVM", "JVM_DefineClass"),
        version=re.compile(rb" JRE \((\d[\d.+]*)"),
        reason="its TLS runs in JIT-compiled code",
    ),
)
"""Those that are never probed."""

# Their errors tell the source file. The first text is what all of them have: it is searched once.
_SOURCE = b"ssl/ssl_lib.c"
_BORING = (_SOURCE, b"ssl/ssl_lib.cc\0", b"ssl/ssl_cert.cc\0")

FAMILY = (
    UnprobedLibrary(
        library="aws-lc",
        name="AWS-LC",
        texts=(*_BORING, b"AWS-LC"),
        version=re.compile(rb"AWS-LC (\d+\.\d+\.\d+)\0"),
        reason=_NO_SYMBOLS,
        remedy=WITH_SYMBOLS,
    ),
    UnprobedLibrary(
        library="boringssl",
        name="BoringSSL",
        texts=_BORING,
        unless=b"AWS-LC",
        reason=_NO_SYMBOLS,
        remedy=WITH_SYMBOLS,
    ),
    UnprobedLibrary(
        library="openssl",
        name="OpenSSL",
        texts=(_SOURCE, b"ssl/ssl_lib.c\0", b"ssl/ssl_cert.c\0"),
        version=re.compile(rb"OpenSSL (\d+\.\d+\.\d+[a-z]*) +\d+ [A-Z][a-z]{2} \d{4}\0"),
        reason=_NO_SYMBOLS,
        remedy=WITH_SYMBOLS,
    ),
)
"""OpenSSL and what came of it: probed where there are symbols, so looked for where are none."""

GO = UnprobedLibrary(
    library="go",
    name="Go (crypto/tls)",
    remedy="its tls.Config.KeyLogWriter can write keys for Wireshark",
)
"""Known by what Go's linker adds to a program: ``sslsniff.probing.go.programs``."""

NAMES = {each.library: each.name for each in (*KINDS, *FAMILY, GO)} | {"gnutls": "GnuTLS"}
"""How people call a library."""
