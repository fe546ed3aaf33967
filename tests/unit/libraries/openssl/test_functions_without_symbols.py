"""The functions of OpenSSL in libraries and programs, by the names in their errors."""

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from sslsniff.core.errors import ElfError
from sslsniff.elf.elf_file import Elf
from sslsniff.libraries.openssl.functions_without_symbols import find_openssl_functions
from sslsniff.libraries.openssl.layout import read_openssl_layout
from sslsniff.libraries.openssl.named_fields import NAMES
from sslsniff.matching.object_layout import ObjectLayout
from sslsniff.matching.stripped.evidence import FoundSsl
from tests import libraries
from tests.workload.node import NODE
from tests.workload.processes import PROGRAMS

FIELDS = {"server", "alpn", "alpn_length", "sni", "references", "is_typed"}
PUBLIC = {"SSL_read", "SSL_write", "SSL_do_handshake", "SSL_shutdown", "SSL_new"}
USERS = {*NAMES, "SSL_free"}
INTERNAL = {"ssl_read_internal", "ssl_write_internal"}
WITH_FLAGS = {"ssl_read_internal", "ssl_write_internal with flags"}


def find(path: Path) -> FoundSsl:
    with Elf(str(path)) as elf:
        return find_openssl_functions(elf)


def proved(found: FoundSsl) -> dict[str, int]:
    return {e.name: e.function.address for e in found.functions if e.is_proved and e.function}


def fields(layout: ObjectLayout) -> dict[str, int]:
    return {name: value for name, value in layout._asdict().items() if value is not None}


def true_fields(path: Path) -> dict[str, int]:
    """Return what the accessor functions of a program with symbols say."""
    with Elf(str(path)) as elf:
        return fields(read_openssl_layout(elf))


def symbols(path: Path) -> dict[str, int]:
    with Elf(str(path)) as elf:
        return {symbol.name: symbol.function.address for symbol in elf.functions()}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program with OpenSSL linked in, and its symbols."""
    path = tmp_path_factory.mktemp("program") / "client"
    linked = "-l:libssl.a", "-l:libcrypto.a"
    source = PROGRAMS / "c/openssl_client.c"
    subprocess.run(["gcc", "-O1", "-o", path, source, *linked], check=True)
    return path


@pytest.fixture(scope="module")
def stripped(program: Path) -> Path:
    path = program.with_name("stripped")
    subprocess.run(["strip", "-o", path, program], check=True)
    return path


@pytest.mark.heavy
@pytest.mark.parametrize("release", libraries.OPENSSL)
def test_they_are_where_the_symbols_of_each_release_are(release: str) -> None:
    path = libraries.library(release).path
    found = proved(find(path))
    has_flags = release not in ("1.1.1", "3.0")
    assert {*found} >= PUBLIC | (WITH_FLAGS if has_flags else INTERNAL)
    known = symbols(path)
    assert {name: known[name] for name in found.keys() & known.keys()} == {
        name: address for name, address in found.items() if name.startswith("SSL_")
    }


@pytest.mark.heavy
def test_a_program_without_symbols_has_them(program: Path, stripped: Path) -> None:
    with Elf(str(stripped)) as elf:
        assert elf.function("SSL_read") is None
    found = proved(find(stripped))
    assert {*found} >= PUBLIC | INTERNAL | {"SSL_free"}
    known = symbols(program)
    assert found == {name: known[name] for name in found}


@pytest.mark.slow
@pytest.mark.parametrize("release", [each for each in libraries.OPENSSL if each != "1.1.1"])
def test_fields_are_where_the_accessors_of_each_release_have_them(release: str) -> None:
    path = libraries.library(release).path
    found, known = fields(find(path).layout), true_fields(path)
    assert found == {name: known[name] for name in found}
    # Calls of SSL_free in older shared libraries lead through their table of symbols.
    assert {*found} >= FIELDS & {*known} - {"references"}


@pytest.mark.tools
def test_fields_of_a_program_are_those_that_its_symbols_have(program: Path, stripped: Path) -> None:
    found, known = fields(find(stripped).layout), true_fields(program)
    assert found == {name: known[name] for name in FIELDS & {*known}}


@pytest.mark.heavy
def test_inlined_functions_are_found_where_they_are(tmp_path: Path) -> None:
    """In Node.js, ``ssl_read_internal`` is in ``SSL_read``, in ``SSL_read_ex``, and itself."""
    path = tmp_path / "node"
    subprocess.run(["strip", "-o", path, NODE], check=True)
    found = proved(find(path))
    known = symbols(NODE)
    assert found["SSL_read"] == found["ssl_read_internal in SSL_read"] == known["SSL_read"]
    assert found["ssl_read_internal"] == known["ssl_read_internal"]
    assert found["ssl_read_internal (2)"] == known["SSL_read_ex"]
    assert found["SSL_write"] == found["ssl_write_internal in SSL_write"] == known["SSL_write"]
    assert found["ssl_write_internal with flags"] == known["ssl_write_internal"]
    assert found["ssl_write_internal (2)"] == known["SSL_write_ex"]
    assert found["ssl_write_internal with flags (3)"] == known["SSL_write_ex2"]
    assert found["SSL_free"] == known["SSL_free"]
    true = true_fields(NODE)
    assert fields(find(path).layout) == {name: true[name] for name in FIELDS}


@pytest.mark.heavy
def test_no_function_is_wrong_in_a_damaged_copy(
    program: Path, stripped: Path, tmp_path: Path
) -> None:
    numbers = random.Random(18)
    known, true = symbols(program), true_fields(program)
    whole = stripped.read_bytes()
    with Elf(str(stripped)) as elf:
        places = [elf.offset(known[name]) for name in sorted(PUBLIC | INTERNAL | USERS)]
    damaged = tmp_path / "damaged"
    refused = 0
    for _ in range(24):
        copy = bytearray(whole)
        for _ in range(20):
            copy[numbers.choice(places) + numbers.randrange(0x200)] = numbers.randrange(256)
        damaged.write_bytes(copy)
        try:
            all_found = find(damaged)
        except ElfError:
            continue
        found, layout = proved(all_found), fields(all_found.layout)
        assert found == {name: known[name] for name in found}
        assert layout == {name: true[name] for name in layout}
        refused += not {*found} >= PUBLIC | INTERNAL
    assert refused  # else the damage was nowhere that matters


@pytest.mark.heavy
def test_boringssl_is_another_library(tmp_path: Path) -> None:
    path = tmp_path / "library.so"
    shutil.copy(libraries.library("boringssl").path, path)
    assert find(path).refusal == "it has no text that ends with ssl/ssl_lib.c"
