"""TLS libraries are recognised, by symbols or by texts, and nothing else is taken for one."""

import re
import subprocess
from pathlib import Path

import pytest

from sslsniff.analysis.attachments import make_attachment
from sslsniff.analysis.recognition import first_texts, recognise
from sslsniff.core.errors import ElfError
from sslsniff.elf.elf_file import Elf
from sslsniff.matching.probe_set import Attachment, Refusal, ReturnStyle, Unprobed
from tests import libraries
from tests.workload.debian import CACHE, unpack

WHEELS = "wheels/lib/python3*/site-packages"
NO_SYMBOLS = "it is linked in without symbols"
NO_PROBES = "sslsniff cannot probe it yet"

MBEDTLS = """
#include <mbedtls/ssl.h>
int main(void) {
    mbedtls_ssl_context ssl;
    mbedtls_ssl_init(&ssl);
    unsigned char byte = 0;
    return mbedtls_ssl_handshake(&ssl) + mbedtls_ssl_write(&ssl, &byte, 1)
        + mbedtls_ssl_read(&ssl, &byte, 1);
}
"""
WOLFSSL = """
#include <wolfssl/options.h>
#include <wolfssl/ssl.h>
int main(void) {
    WOLFSSL *ssl = wolfSSL_new(wolfSSL_CTX_new(wolfTLSv1_2_client_method()));
    char byte = 0;
    return wolfSSL_connect(ssl) + wolfSSL_write(ssl, &byte, 1) + wolfSSL_read(ssl, &byte, 1);
}
"""
OPENSSL = """
#include <openssl/ssl.h>
int main(void) {
    SSL *ssl = SSL_new(SSL_CTX_new(TLS_client_method()));
    char byte = 0;
    return SSL_connect(ssl) + SSL_write(ssl, &byte, 1) + SSL_read(ssl, &byte, 1);
}
"""


def recognised(path: Path | str) -> list[Unprobed]:
    with Elf(str(path)) as elf:
        return recognise(elf, first_texts(elf), set())


def found_in(path: Path | str) -> Attachment | Refusal:
    with Elf(str(path)) as elf:
        return make_attachment(elf, ReturnStyle.INSTRUCTIONS)


def cached(pattern: str) -> Path:
    """Return what the Makefile put under .cache."""
    return min(CACHE.glob(pattern))


@pytest.mark.parametrize(
    ("series", "shown"),
    [
        ("wolfssl-4.6", r"wolfssl 4\.6\.\d+"),
        ("wolfssl-5.9", r"wolfssl 5\.9\.\d+"),
        ("mbedtls-2.16", "mbedtls"),
        ("mbedtls-3.6", "mbedtls"),
    ],
)
def test_a_shared_library_is_probed(series: str, shown: str) -> None:
    """And nothing of it is named as not probed."""
    found = found_in(libraries.library(series).path)
    assert isinstance(found, Attachment)
    [part] = found.parts
    assert re.fullmatch(shown, str(part))
    assert (found.unprobed, found.left_out) == ((), ())


@pytest.mark.tools
@pytest.mark.parametrize("is_stripped", [False, True], ids=["whole", "stripped"])
@pytest.mark.parametrize(
    ("library", "source", "shown", "others"),
    [
        ("mbedtls", MBEDTLS, r"Mbed TLS( 2\.\d+\.\d+)?", ("libmbedx509.a", "libmbedcrypto.a")),
        ("wolfssl", WOLFSSL, r"wolfSSL 5\.\d+\.\d+", ("-lm",)),
    ],
)
def test_one_that_is_linked_in_is_probed_by_symbols_and_else_named(
    library: str,
    source: str,
    shown: str,
    others: tuple[str, ...],
    is_stripped: bool,
    tmp_path: Path,
) -> None:
    package = libraries.library("mbedtls-2.28-static" if library == "mbedtls" else "wolfssl-static")
    linked = [
        package.path,
        *(package.path.with_name(each) if each[0] != "-" else each for each in others),
    ]
    program = tmp_path / "program"
    include = f"-I{package.folder}/usr/include"
    options = ["-w", include, *(["-s"] if is_stripped else [])]
    compile_program(source, program, *options, linked=linked)
    found = found_in(program)
    if is_stripped:
        [row] = found.unprobed
        assert re.fullmatch(shown, str(row))
        assert (row.library, row.reason) == (library, NO_SYMBOLS)
    else:
        assert isinstance(found, Attachment)
        assert [each.library for each in found.parts] == [library]
        assert found.unprobed == ()


def compile_program(source: str, program: Path, *options: str, linked: list[Path | str]) -> None:
    command = ["gcc", *options, "-x", "c", "-", "-o", program, "-x", "none", *linked]
    subprocess.run(command, input=source.encode(), check=True)


@pytest.mark.heavy
def test_openssl_without_symbols_and_unwind_table_fits_return_probes(tmp_path: Path) -> None:
    """Its ``ssl_read_internal`` jumps on, and who calls it cannot be found (gcc -static)."""
    program = tmp_path / "program"
    compile_program(OPENSSL, program, "-static", "-s", "-w", linked=["-lssl", "-lcrypto"])
    found = found_in(program)
    assert isinstance(found, Refusal)
    [row] = found.unprobed
    assert (row.library, row.name) == ("openssl", "OpenSSL")
    assert row.reason.startswith(f"{NO_SYMBOLS}, and no place for its probes: ssl_read_internal")
    assert row.remedy.startswith("capture it with --returns trampoline")
    with Elf(str(program)) as elf:
        trampoline = make_attachment(elf, ReturnStyle.TRAMPOLINE)
    assert isinstance(trampoline, Attachment)
    assert [(each.library, each.found_by) for each in trampoline.parts] == [
        ("openssl", "errors in its code")
    ]


@pytest.mark.tools
@pytest.mark.parametrize(
    ("file", "shown", "reason"),
    [
        (f"{WHEELS}/grpc/_cython/cygrpc.*.so", "BoringSSL", NO_SYMBOLS),
        pytest.param("wheels/bin/uv", None, "", marks=pytest.mark.heavy),
    ],
)
def test_programs_that_others_linked(file: str, shown: str | None, reason: str) -> None:
    rows = recognised(cached(file))
    assert [(row.reason, bool(re.fullmatch(shown or "", str(row)))) for row in rows] == (
        [(reason, True)] if shown else []
    )


@pytest.mark.heavy
@pytest.mark.parametrize(("suite", "version"), [("bookworm", "1.5.8"), ("trixie", "1.8.0")])
def test_haskell_is_known_by_the_names_of_its_types(
    suite: str, version: str, tmp_path: Path
) -> None:
    unpack(suite, ["darcs"], tmp_path)
    [row] = recognised(tmp_path / "usr/bin/darcs")
    assert (str(row), row.reason) == (f"Haskell (tls) {version}", NO_PROBES)


OCAML_ERRORS = (
    "set of ciphers is not a proper set",
    "Pre-shared key extension exists, but is not the last",
)


@pytest.mark.tools
@pytest.mark.parametrize("errors", [OCAML_ERRORS, *((each,) for each in OCAML_ERRORS)])
def test_ocaml_is_known_by_the_errors_in_its_data(errors: tuple[str, ...], tmp_path: Path) -> None:
    """As in semgrep 1.185.0, and in a client that was built with ocaml-tls 0.15.5."""
    data = "".join(f'char error_{at}[] = "{each}";\n' for at, each in enumerate(errors))
    source = f"""{data}
__asm__(".text; .space 65536, 0x90");
#include <stdlib.h>
int main(void) {{ return getenv("OCAMLRUNPARAM") != NULL; }}
"""
    compile_program(source, tmp_path / "program", "-s", linked=[])
    rows = recognised(tmp_path / "program")
    shown = [("OCaml (tls)", NO_PROBES)] if errors == OCAML_ERRORS else []
    assert [(str(row), row.reason) for row in rows] == shown


@pytest.mark.heavy
def test_java_is_known_by_its_virtual_machine() -> None:
    [row] = recognised(libraries.java())
    assert re.fullmatch(r"Java \(JSSE\) \d+[\d.+]*", str(row))
    assert row.reason == "its TLS runs in JIT-compiled code"


USERS = (
    *("bin/bash", "bin/curl", "bin/git", "bin/openssl", "bin/python3.11", "bin/tshark", "bin/wget"),
    *("sbin/nginx", "lib/git-core/git-remote-http"),
    *(
        f"lib/x86_64-linux-gnu/{name}.so.*"
        for name in (
            "libc",
            "libcrypto",
            "libcurl",
            "libcurl-gnutls",
            "libicudata",
            "libldap-2.5",
            "libnettle",
            "libhogweed",
            "librtmp",
            "libssh2",
            "libwireshark",
            "libwiretap",
            "libz",
            "libbpf",
        )
    ),
    "lib/gcc/x86_64-linux-gnu/*/cc1",
    "lib/jvm/*/lib/libjli.so",
    "lib/jvm/*/lib/libjava.so",
    "lib/jvm/*/bin/java",
)
"""Programs that use a TLS library, libraries that know one by name, and those with no TLS."""


@pytest.mark.slow
def test_who_uses_a_library_is_not_taken_for_one() -> None:
    files = {path.resolve() for pattern in USERS for path in Path("/usr").glob(pattern)}
    rows = {path: recognised(path) for path in files}
    assert {path: found for path, found in rows.items() if found} == {}
    assert len(files) > 20


@pytest.mark.tools
@pytest.mark.parametrize(
    "text",
    [
        "ssl/ssl_lib.c",
        "ssl/ssl_lib.cc",
        "Retried s2n_send() size is invalid",
        "ssl_check_pending: application data record is being processed",
        "AnalysedFile received from peer before Change Cipher Error",
    ],
)
def test_what_only_mentions_a_part_is_none(text: str, tmp_path: Path) -> None:
    program = tmp_path / "program"
    code = f'#include <stdio.h>\nint main(void) {{ puts("{text}"); printf("%s.\\n", "{text}"); }}'
    compile_program(code, program, "-static", linked=[])
    assert recognised(program) == []


@pytest.mark.tools
def test_damage_is_told(tmp_path: Path) -> None:
    """A hash table whose symbols are not there."""
    whole = libraries.library("nss-3.87").path.read_bytes()
    for cut in range(1000, len(whole), len(whole) // 50):
        (tmp_path / "library.so").write_bytes(whole[:cut])
        with pytest.raises(ElfError):
            recognised(tmp_path / "library.so")
