"""The probes in programs with BoringSSL linked in and stripped."""

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from sslsniff.analysis import result_cache
from sslsniff.analysis.attachments import make_attachment
from sslsniff.analysis.file_analyzer import FileAnalyzer, LongSearch
from sslsniff.analysis.stripped_fitting import LongSearchError
from sslsniff.elf.elf_file import Elf, open_file
from sslsniff.libraries.openssl.layout import read_openssl_layout
from sslsniff.matching.object_layout import ObjectLayout
from sslsniff.matching.probe_set import Attachment, ProbedLibrary, Refusal, ReturnStyle
from tests.unit.libraries.boringssl.test_boringssl_without_symbols import CACHE, program

BUN = CACHE / "bun/node_modules/@oven/bun-linux-x64/bin/bun"
PROGRAMS = {
    "c_read_plain_enter",
    "c_write_plain_enter",
    "c_return",
    "openssl_new_return",
    "openssl_free_enter",
    "openssl_shutdown_enter",
    "boringssl_handshake_enter",
    "boringssl_handshake_return",
    "boringssl_error_enter",
}
BY_SYMBOLS = {"openssl_clear_enter", "boringssl_alert_enter", "boringssl_received_enter"}
PLANNING_S = 60


def plan(path: Path, style: ReturnStyle = ReturnStyle.INSTRUCTIONS) -> Attachment | Refusal:
    with Elf(str(path)) as elf:
        return make_attachment(elf, style)


def library(found: Attachment | Refusal) -> ProbedLibrary:
    assert isinstance(found, Attachment)
    [part] = found.parts
    assert found.unprobed == ()
    return part


@pytest.fixture(scope="module")
def stripped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stripped") / "wrapper.so"
    shutil.copy(program("curl_cffi"), path)
    subprocess.run(["strip", str(path)], check=True)
    return path


@pytest.mark.heavy
@pytest.mark.parametrize("style", ReturnStyle)
def test_the_probes_are_those_that_symbols_lead_to(stripped: Path, style: ReturnStyle) -> None:
    """Except that SSL_clear, which few programs call, and functions of alerts are not found."""
    named, found = library(plan(program("curl_cffi"), style)), library(plan(stripped, style))
    assert found.library == named.library == "boringssl"
    wanted = {each for each in named.probes if each.program not in BY_SYMBOLS}
    assert {*found.probes} == wanted
    assert (named.found_by, found.found_by) == (None, "errors in its code")


@pytest.mark.heavy
def test_fields_of_objects_are_where_accessors_find_them(stripped: Path) -> None:
    found = library(plan(stripped)).layout
    assert isinstance(found, ObjectLayout)
    with Elf(str(program("curl_cffi"))) as elf:
        read = read_openssl_layout(elf)
        is_server = elf.function("SSL_is_server")
        assert is_server is not None
        code = elf.code(is_server)
    assert (found.sni, found.sni_base, found.sni_inner) == (read.sni, read.sni_base, read.sni_inner)
    assert None not in (found.sni, found.sni_base, found.sni_inner, found.server)
    # It loads a byte of its argument, and masks the lowest bit.
    assert b"\x0f\xb6\x87" + struct.pack("<i", found.server) + b"\x83\xe0\x01" in code
    assert found.server_mask == 1


@pytest.mark.tools
@pytest.mark.parametrize("name", ["grpcio", pytest.param("curl_cffi", marks=pytest.mark.heavy)])
def test_the_protocol_is_right_before_the_name_of_the_server(name: str, tmp_path: Path) -> None:
    """As in SSL3_STATE: pointer and size of the one, then a pointer to the other.

    GCC loads them in each branch of SSL_get0_alpn_selected; Clang chooses an address before.
    """
    path = tmp_path / "module.so"
    subprocess.run(["strip", "-o", path, program(name)], check=True)
    found = library(plan(path)).layout
    assert isinstance(found, ObjectLayout)
    assert (found.alpn_base, found.sni_base) == (48, 48)
    assert (found.alpn, found.alpn_length, found.sni_inner) == (488, 496, 504)


@pytest.mark.heavy
def test_the_name_of_the_server_is_found_where_its_accessor_is_inlined() -> None:
    """Bun's own function gets an object with a pointer to BoringSSL's."""
    found = library(plan(BUN)).layout
    assert isinstance(found, ObjectLayout)
    assert (found.sni, found.sni_base, found.sni_inner) == (144, 48, 504)


@pytest.mark.tools
@pytest.mark.parametrize("style", ReturnStyle)
def test_a_module_with_parts_elsewhere_has_all_probes(style: ReturnStyle) -> None:
    """GCC put what follows a failed check of SSL_read into another section."""
    part = library(plan(program("grpcio"), style))
    assert {each.program for each in part.probes} == PROGRAMS


@pytest.mark.tools
def test_each_probe_is_where_an_instruction_begins() -> None:
    path = program("grpcio")
    part = library(plan(path))
    with Elf(str(path)) as elf:
        [(start, _)] = elf.code_parts
        shift = start - elf.offset(start)
    for probe in part.probes:
        address = probe.offset + shift
        with Elf(str(path)) as elf:
            function = elf.function_around(address)
        assert function is not None
        shown = subprocess.run(
            [
                *("objdump", "-d", "--no-show-raw-insn", str(path)),
                f"--start-address={function.address}",
                f"--stop-address={function.address + function.size}",
            ],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        assert f" {address:x}:\t" in shown


@pytest.mark.slow
def test_a_plan_is_the_same_after_the_cache() -> None:
    path = program("grpcio")
    found = plan(path)
    assert result_cache.parse(result_cache.entry(found), str(path), path.stat().st_size) == found


@pytest.mark.heavy
def test_a_long_search_is_not_begun_at_once() -> None:
    with Elf(str(BUN)) as elf, pytest.raises(LongSearchError):
        make_attachment(elf, ReturnStyle.INSTRUCTIONS, may_search_long=False)


@pytest.mark.heavy
def test_a_long_search_is_reported_and_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other files are planned meanwhile."""
    monkeypatch.setattr(result_cache, "folder", lambda: tmp_path / "cache")
    finished = []
    with FileAnalyzer() as analyzer:
        for path in (BUN, program("grpcio")):
            analyzer.add(str(path), open_file(str(path)))
        while analyzer.is_busy:
            analyzer.wait(1)
            for each in analyzer.results():
                finished.append((each.path, each.result))
                each.close()
        searches = analyzer.searches
    assert searches == [LongSearch(str(BUN), BUN.stat().st_size, "SSL_read")]
    assert [path for path, _ in finished] == [str(program("grpcio")), str(BUN)]
    for _, found in finished:
        assert {each.program for each in library(found).probes} == PROGRAMS


@pytest.mark.heavy
def test_a_damaged_function_is_not_probed(stripped: Path, tmp_path: Path) -> None:
    """The reason says which one, and what is against it."""
    with Elf(str(program("curl_cffi"))) as elf:
        write = elf.function("SSL_write")
        assert write is not None
        at = elf.offset(write.address)
    data = bytearray(stripped.read_bytes())
    data[at : at + 2] = b"\x31\xc0"  # xor eax, eax: the first pushes are gone
    data[at + write.size - 8 : at + write.size] = b"\x06" * 8  # no instruction
    damaged = tmp_path / "damaged.so"
    damaged.write_bytes(data)
    found = plan(damaged)
    assert isinstance(found, Refusal)
    assert found.reason.startswith("BoringSSL: it is linked in without symbols, and ")
    assert found.is_tls
