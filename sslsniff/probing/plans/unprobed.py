"""TLS libraries that have no probes, and what proves that a file has one of them: data only.

A shared library exports its functions. A library that is linked into a program and stripped has no
symbols, but still the texts of its errors. A text is used only if programs that merely use the
library, or that have another part of it, do not have the text: ``libcrypto`` does not have
``ssl/ssl_lib.c``.
"""

import re
from typing import NamedTuple

from sslsniff.probing.plans import libressl, mbedtls, openssl, wolfssl

WITH_SYMBOLS = "build it with symbols, or install its debug file"

_NO_PROBES = "sslsniff cannot probe it yet"
NO_SYMBOLS = "it is linked in without symbols"
OTHER_END = "watch the other end of its connections"


class UnprobedLibrary(NamedTuple):
    """A TLS library that is not probed, how to recognise it, and why it is not probed.

    ``library``: its name for programs.
    ``name``: its name for people.
    ``exports``: a file that exports all of these has the library.
    ``texts``: so has a file with all of these in its read-only data, but without ``unless``. The
    first one is searched in every file, which is faster for a longer text.
    ``version``: finds the library's version in that data.
    """

    library: str
    name: str
    exports: tuple[str, ...] = ()
    texts: tuple[bytes, ...] = ()
    unless: bytes | None = None
    version: re.Pattern[bytes] | None = None
    reason: str = _NO_PROBES
    remedy: str = OTHER_END


KINDS = (
    UnprobedLibrary(
        library="wolfssl",
        name="wolfSSL",
        texts=(
            b"Finished received from peer before Change Cipher Error\0",
            b"weird handshake type\0",
        ),
        version=wolfssl.WOLFSSL.version,
        reason=NO_SYMBOLS,
        remedy=WITH_SYMBOLS,
    ),
    UnprobedLibrary(
        library="mbedtls",
        name="Mbed TLS",
        texts=(
            b"ssl_check_pending: application data record is being processed\0",
            b"mbedtls_ssl_fetch_input\0",
        ),
        version=mbedtls.MBEDTLS.version,
        reason=NO_SYMBOLS,
        remedy=WITH_SYMBOLS,
    ),
    UnprobedLibrary(
        library="s2n",
        name="s2n-tls",
        texts=(b"Retried s2n_send() size is invalid\0", b"/s2n_connection.c:"),
        reason=NO_SYMBOLS,
        remedy=WITH_SYMBOLS,
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
"""Libraries that are never probed, and those that are probed by symbols, in files without."""

# Errors of OpenSSL and its forks contain the name of a source file. All begin with the same text,
# which is searched once.
FAMILY_TEXT = b"ssl/ssl_lib.c"
_BORING = (FAMILY_TEXT, b"ssl/ssl_lib.cc\0", b"ssl/ssl_cert.cc\0")

FAMILY = (
    UnprobedLibrary(
        library="aws-lc",
        name="AWS-LC",
        texts=(*_BORING, b"AWS-LC"),
        version=openssl.AWS_LC.version,
        reason=NO_SYMBOLS,
        remedy=WITH_SYMBOLS,
    ),
    UnprobedLibrary(
        library="boringssl",
        name="BoringSSL",
        texts=_BORING,
        unless=b"AWS-LC",
        reason=NO_SYMBOLS,
        remedy=WITH_SYMBOLS,
    ),
    UnprobedLibrary(
        library="libressl",
        name="LibreSSL",
        texts=(FAMILY_TEXT, b"LibreSSL "),
        version=libressl.LIBRESSL.version,
        reason=NO_SYMBOLS,
        remedy=WITH_SYMBOLS,
    ),
    UnprobedLibrary(
        library="openssl",
        name="OpenSSL",
        texts=(FAMILY_TEXT, b"ssl/ssl_lib.c\0", b"ssl/ssl_cert.c\0"),
        version=openssl.OPENSSL.version,
        reason=NO_SYMBOLS,
        remedy=WITH_SYMBOLS,
    ),
)
"""OpenSSL and its forks: they are probed by symbols, so these rows are for files without."""

GO = UnprobedLibrary(
    library="go",
    name="Go (crypto/tls)",
    remedy="its tls.Config.KeyLogWriter can write keys for Wireshark",
)
"""Recognised by what Go's linker adds to a program: ``sslsniff.probing.go.programs``."""
