"""The plans for wolfSSL, Mbed TLS, s2n-tls and LibreSSL, in each release and in files like them."""

import contextlib
from pathlib import Path

import pytest

from sslsniff.analysis.attachments import make_attachment
from sslsniff.core.errors import ElfError
from sslsniff.elf.elf_file import Elf
from sslsniff.matching.probe_set import Attachment, Refusal, ReturnStyle
from tests import libraries
from tests.unit.analysis.test_attachments import compiled, only_part
from tests.workload.debian import CACHE

AWSCRT = "wheels/lib/python3*/site-packages/_awscrt.abi3.so"
WOLFSSL = ("wolfssl-4.6", "wolfssl-5.5", "wolfssl-5.7", "wolfssl-5.9")
MBEDTLS = ("mbedtls-2.16", "mbedtls-2.28", "mbedtls-3.6")
LIFE = {"c_handshake_enter", "openssl_free_enter", "openssl_clear_enter"}

LIBRESSL = """
typedef int call(void *, void *, int);
static int finish(int *s, int result) { s[8] = 0; return result; }
__attribute__((noinline)) static int inner(call **s, void *b, int n)
{ return b ? finish((int *)s, s[0](s, b, n)) : 0; }
__attribute__((noinline)) static int inner_peek(call **s, void *b, int n)
{ return b ? finish((int *)s, s[1](s, b, n)) : 0; }
int SSL_read(call **s, void *b, int n) { return n < 0 ? -1 : inner(s, b, n); }
int SSL_peek(call **s, void *b, int n) { return n < 0 ? -1 : PEEK(s, b, n); }
int SSL_write(call **s, void *b, int n) { return WRITE; }
void *SSL_new(void) { return 0; }
int SSL_CTX_load_verify_mem(void) { return 0; }
"""
TAIL = "n < 0 ? -1 : s[2](s, b, n)"
FINISHED = "finish((int *)s, s[2](s, b, n))"


def attempt(path: Path, style: ReturnStyle = ReturnStyle.INSTRUCTIONS) -> Attachment | Refusal:
    with Elf(str(path)) as elf:
        return make_attachment(elf, style)


def programs(found: Attachment | Refusal, library: str) -> set[str]:
    """Return the BPF programs of the only library in a file, of which nothing was left out."""
    assert isinstance(found, Attachment), found
    assert (found.left_out, found.unprobed) == ((), ())
    assert only_part(found).library == library
    return {each.program for each in found.probes}


@pytest.mark.tools
@pytest.mark.parametrize("series", [*WOLFSSL, *MBEDTLS])
def test_every_release_is_probed(series: str) -> None:
    """Reads and writes, and no function for data more than that."""
    library = series.split("-")[0]
    found = attempt(libraries.library(series).path)
    data = programs(found, library) - LIFE
    handed, plain = {"c_call_enter"}, {"c_read_plain_enter", "c_write_plain_enter"}
    assert data == {*(plain if library == "mbedtls" else handed), "c_return"}
    if library == "wolfssl":
        assert series.endswith(".".join(str(only_part_version(found)).split(".")[:2]))


def only_part_version(found: Attachment | Refusal) -> str | None:
    assert isinstance(found, Attachment)
    return only_part(found).version


@pytest.mark.tools
@pytest.mark.parametrize("style", ReturnStyle)
def test_lists_of_buffers_have_programs_of_their_own(style: ReturnStyle) -> None:
    [path] = CACHE.glob(AWSCRT)
    data = programs(attempt(path, style), "s2n") - LIFE
    lists = {"c_write_list_offset_enter", "c_list_return"}
    assert data == {"c_read_plain_enter", "c_return", *lists}


@pytest.mark.heavy
def test_return_probes_of_the_kernel_are_at_public_functions() -> None:
    """Also where one of these calls the function that others call, as in wolfSSL since 5.8."""
    found = attempt(libraries.library("wolfssl-5.9").path, ReturnStyle.TRAMPOLINE)
    both = {"c_read_plain_enter", "c_write_plain_enter", "c_read_enter", "c_write_enter"}
    lists = {"c_write_list_enter", "c_list_return"}
    assert programs(found, "wolfssl") - LIFE == {*both, *lists, "c_return"}


@pytest.mark.tools
def test_what_return_probes_could_see_is_said() -> None:
    found = attempt(libraries.library("wolfssl-5.5").path, ReturnStyle.PLAIN_INSTRUCTIONS)
    assert isinstance(found, Refusal)
    assert found.remedy.startswith("capture it with --returns trampoline")


@pytest.mark.heavy
@pytest.mark.parametrize("series", ["wolfssl-5.5", "mbedtls-2.28"])
def test_another_architecture_is_refused(series: str) -> None:
    found = attempt(libraries.library(series, "arm64").path)
    assert isinstance(found, Refusal)
    assert found.reason.endswith(": it is for aarch64")
    assert found.remedy == "only x86-64 programs can be watched"


@pytest.mark.tools
@pytest.mark.parametrize("series", ["wolfssl-5.5", "mbedtls-2.28"])
@pytest.mark.parametrize("kept", [100, 4096, 100_000])
def test_a_damaged_copy_is_refused(series: str, kept: int, tmp_path: Path) -> None:
    path = tmp_path / "library.so"
    path.write_bytes(libraries.library(series).path.read_bytes()[:kept])
    with contextlib.suppress(ElfError):
        assert isinstance(attempt(path), Refusal)


def libressl(tmp_path: Path, peek: str = "inner_peek", write: str = FINISHED) -> Path:
    source = LIBRESSL.replace("PEEK", peek).replace("WRITE", write)
    return compiled(tmp_path, source)


@pytest.mark.tools
def test_libressl_is_no_openssl(tmp_path: Path) -> None:
    """Its reads are probed in the function that SSL_read hands them to."""
    found = attempt(libressl(tmp_path))
    data = {"c_call_enter", "c_write_plain_enter", "c_return"}
    assert programs(found, "libressl") == data


@pytest.mark.tools
def test_writes_that_end_with_a_jump_need_return_probes(tmp_path: Path) -> None:
    path = libressl(tmp_path, write=TAIL)
    found = attempt(path)
    assert isinstance(found, Refusal)
    [row] = found.unprobed
    assert (row.library, row.name) == ("libressl", "LibreSSL")
    assert row.remedy.startswith("capture it with --returns trampoline")
    data = {"c_read_plain_enter", "c_write_plain_enter", "c_return"}
    assert programs(attempt(path, ReturnStyle.TRAMPOLINE), "libressl") == data


@pytest.mark.tools
def test_reads_are_not_probed_where_a_peek_would_count(tmp_path: Path) -> None:
    found = attempt(libressl(tmp_path, peek="inner"))
    assert isinstance(found, Refusal)
    assert "SSL_peek and SSL_read hand their calls to one function" in found.reason
