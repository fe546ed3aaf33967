"""TLS libraries that are never probed, and what proves that a file has one of them: data only.

A shared library exports its functions. A library that is linked into a program and stripped has no
symbols, but still the texts of its errors. A text is used only if programs that merely use the
library, or that have another part of it, do not have the text.
"""

import re

from sslsniff.matching.library import UnprobedLibrary

UNPROBED = (
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
