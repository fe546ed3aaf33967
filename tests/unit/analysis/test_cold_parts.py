"""Functions of which the compiler put a part elsewhere, as it is seldom executed."""

import ctypes
import subprocess
from pathlib import Path

import pytest

from sslsniff.analysis.attachments import make_attachment
from sslsniff.elf.elf_file import Elf
from sslsniff.libraries.boringssl.plan import BORINGSSL
from sslsniff.machine_code.stripped.stripped_code import cold_parts
from sslsniff.matching.placing import entry_probes
from sslsniff.matching.probe_set import Attachment, ReturnStyle, UnfitError

pytestmark = pytest.mark.tools

SOURCE = r"""
#include <stdlib.h>

struct ssl { long *state; long size; };

__attribute__((noinline, cold)) void report(long value) { __asm__ volatile("" :: "r"(value)); }
__attribute__((noinline)) long work(struct ssl *ssl, void *buffer, int size)
{
    __asm__ volatile("" :: "r"(ssl), "r"(buffer), "r"(size) : "memory");
    return size;
}

int SSL_read(struct ssl *ssl, void *buffer, int size)
{
    long done = work(ssl, buffer, size);

    if (__builtin_expect(ssl->size < done, 0)) abort();
    ssl->size -= done;
    if (work(ssl, buffer, 1) > 5) return 1;
    return (int)done;
}

int SSL_write(struct ssl *ssl, void *buffer, int size)
{
    long done = work(ssl, buffer, size);

    if (__builtin_expect(ssl->size < done, 0)) {
        report(done);
        report(ssl->size);
        return -1;
    }
    return (int)work(ssl, buffer, 2) + (int)done;
}

void *SSL_new(void *context) { return context; }
void SSL_CTX_set_grease_enabled(void *context, int enabled) { report((long)context + enabled); }
int call(struct ssl *ssl) { return SSL_read(ssl, 0, 1) + SSL_write(ssl, 0, 1); }
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cold")
    (folder / "library.c").write_text(SOURCE)
    path = folder / "library.so"
    options = ("-O2", "-shared", "-fPIC", "-Wl,-Bsymbolic")
    subprocess.run(["gcc", *options, "-o", str(path), str(folder / "library.c")], check=True)
    ctypes.CDLL(str(path))  # it is whole
    return path


def elsewhere(library: Path) -> dict[str, list[tuple[int, int]]]:
    """Return the parts that are elsewhere as the compiler's symbols name them."""
    shown = subprocess.run(
        ["nm", "-S", str(library)], check=True, capture_output=True, text=True
    ).stdout
    found: dict[str, list[tuple[int, int]]] = {}
    for line in shown.splitlines():
        if ".cold" in line:
            address, size, _, name = line.split()
            found.setdefault(name.partition(".")[0], []).append((int(address, 16), int(size, 16)))
    return found


def test_the_parts_are_those_that_the_compiler_names(library: Path) -> None:
    wanted = elsewhere(library)
    assert {*wanted} == {"SSL_read", "SSL_write"}
    with Elf(str(library)) as elf:
        functions = {name: elf.function(name) for name in (*wanted, "SSL_new", "call")}
        parts = cold_parts(elf, [each for each in functions.values() if each])
        named = {each.address: name for name, each in functions.items() if each}
    assert {named[address]: [*map(tuple, found)] for address, found in parts.items()} == wanted


@pytest.mark.parametrize("style", ReturnStyle)
def test_the_library_is_probed(library: Path, style: ReturnStyle) -> None:
    with Elf(str(library)) as elf:
        found = make_attachment(elf, style)
    assert isinstance(found, Attachment)
    [part] = found.parts
    assert part.library == BORINGSSL.library
    programs = [each.program for each in part.probes]
    assert {"c_read_plain_enter", "c_write_plain_enter", "c_return"} <= {*programs}


def test_returns_in_a_part_elsewhere_are_probed(library: Path) -> None:
    [_, row] = [group[0][0] for group in BORINGSSL.required]
    with Elf(str(library)) as elf:
        write = elf.function("SSL_write")
        assert write is not None
        parts = cold_parts(elf, [write])[write.address]
        style = ReturnStyle.PLAIN_INSTRUCTIONS
        with pytest.raises(UnfitError, match="ways out other than"):
            list(entry_probes(elf, "SSL_write", write, row, style))
        probes = list(entry_probes(elf, "SSL_write", write, row, style, parts))
        returns = {
            each.address + at
            for each in (write, *parts)
            for at, byte in enumerate(elf.code(each))
            if byte == 0xC3
        }
        placed = {each.offset for each in probes if each.program == "c_return"}
        assert placed
        assert placed <= {elf.offset(each) for each in returns}


UNWINDS = """
struct Guard { long held; Guard(long held); ~Guard(); };
long work(long value);
extern "C" long SSL_write(long value) { Guard guard(value); return work(value) + 1; }
"""


def test_what_an_exception_leads_to_elsewhere_ends_no_call(tmp_path: Path) -> None:
    """The function jumps there, and unwinding goes on at its end: as in Netty's BoringSSL."""
    (tmp_path / "library.cc").write_text(UNWINDS)
    path = tmp_path / "library.so"
    options = ("-O2", "-shared", "-fPIC")
    subprocess.run(["g++", *options, "-o", str(path), str(tmp_path / "library.cc")], check=True)
    assert elsewhere(path).keys() == {"SSL_write"}
    [_, row] = [group[0][0] for group in BORINGSSL.required]
    with Elf(str(path)) as elf:
        function = elf.function("SSL_write")
        assert function is not None
        style = ReturnStyle.PLAIN_INSTRUCTIONS
        probes = list(entry_probes(elf, "SSL_write", function, row, style))
        [placed] = [each.offset for each in probes if each.program == "c_return"]
        assert elf.code(function)[placed - elf.offset(function.address)] == 0xC3
