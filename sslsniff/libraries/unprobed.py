"""TLS libraries that have no probes, and what proves that a file has one of them: data only.

A shared library exports its functions. A library that is linked into a program and stripped has no
symbols, but still the texts of its errors. A text is used only if programs that merely use the
library, or that have another part of it, do not have the text: ``libcrypto`` does not have
``ssl/ssl_lib.c``.
"""

import re
from typing import NamedTuple

from sslsniff.libraries.boringssl.plan import AWS_LC
from sslsniff.libraries.libressl.plan import LIBRESSL
from sslsniff.libraries.mbedtls.plan import MBEDTLS
from sslsniff.libraries.openssl.plan import OPENSSL
from sslsniff.libraries.wolfssl.plan import WOLFSSL

_NO_PROBES = "sslsniff cannot probe it yet"
NO_SYMBOLS = "it is linked in without symbols"
OTHER_END = "watch the other end of its connections"
WITH_SYMBOLS = f"build it with symbols, install its debug file, or {OTHER_END}"


class UnprobedLibrary(NamedTuple):
    """A TLS library that is not probed, how to recognise it, and why it is not probed.

    ``library``: its name for programs.
    ``name``: its name for people.
    ``exports``: a file that exports all of these has the library.
    ``texts``: so has a file with all of these in its read-only data, but without ``unless``. The
    first one is searched in every file, which is faster for a longer text.
    ``data_texts``: and all of these in its initialised data, where OCaml keeps texts.
    ``version``: finds the library's version in its read-only data.
    ``is_runtime``: the file is a virtual machine, whose programs may use another library instead.
    """

    library: str
    name: str
    exports: tuple[str, ...] = ()
    texts: tuple[bytes, ...] = ()
    unless: bytes | None = None
    data_texts: tuple[bytes, ...] = ()
    version: re.Pattern[bytes] | None = None
    reason: str = _NO_PROBES
    remedy: str = OTHER_END
    is_runtime: bool = False


KINDS = (
    UnprobedLibrary(
        library="wolfssl",
        name="wolfSSL",
        texts=(
            b"Finished received from peer before Change Cipher Error\0",
            b"weird handshake type\0",
        ),
        version=WOLFSSL.version,
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
        version=MBEDTLS.version,
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
        is_runtime=True,
    ),
    UnprobedLibrary(
        library="erlang",
        name="Erlang/OTP ssl",
        exports=("enif_make_atom", "erl_drv_thread_create"),
        reason="its TLS runs in code of Erlang's virtual machine",
        is_runtime=True,
    ),
    UnprobedLibrary(
        library="utls",
        name="Go (uTLS)",
        texts=(b"github.com/refraction-networking/utls", b"UtlsGREASEExtension"),
    ),
    # Names of errors, which a program has without symbols, too.
    UnprobedLibrary(
        library="zig",
        name="Zig (std.crypto.tls)",
        texts=(b"TlsBadRsaSignatureBitCount", b"TlsConnectionTruncated"),
    ),
    # Names of types in its modules: the same.
    UnprobedLibrary(
        library="haskell-tls",
        name="Haskell (tls)",
        texts=(b"Network.TLS.Extra.Cipher", b"Network.TLS.Struct"),
        version=re.compile(rb"(?<![-\w])tls-(\d+(?:\.\d+)+)-\w+:Network\.TLS"),
    ),
    # Every OCaml program reads this variable. The errors are in ocaml-tls 0.12 to 2.1.
    UnprobedLibrary(
        library="ocaml-tls",
        name="OCaml (tls)",
        texts=(b"OCAMLRUNPARAM\0",),
        data_texts=(
            b"set of ciphers is not a proper set\0",
            b"Pre-shared key extension exists, but is not the last\0",
        ),
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
        version=AWS_LC.version,
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
        version=LIBRESSL.version,
        reason=NO_SYMBOLS,
        remedy=WITH_SYMBOLS,
    ),
    UnprobedLibrary(
        library="openssl",
        name="OpenSSL",
        texts=(FAMILY_TEXT, b"ssl/ssl_lib.c\0", b"ssl/ssl_cert.c\0"),
        version=OPENSSL.version,
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
"""Recognised by what Go's linker adds to a program: ``sslsniff.libraries.go.programs``."""
