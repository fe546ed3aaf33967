"""The methods of rustls by their symbols."""

import subprocess
from pathlib import Path

import pytest

from sslsniff.elf import debug_files
from sslsniff.elf.elf_file import Elf
from sslsniff.libraries.rustls.plaintext_methods import FoundMethods, Method, Proof, find_rustls
from sslsniff.libraries.rustls.rustls_fitting import fit_rustls
from tests.unit import rust_files
from tests.unit.rust_files import made, source_path

pytestmark = pytest.mark.tools

NEW = source_path("0.23.45")
ALL_NEW = [rust_files.TLS13_ENCRYPT, rust_files.TLS13_DECRYPT, rust_files.RECEIVED]


def search(path: Path) -> FoundMethods:
    with Elf(str(path)) as elf:
        return find_rustls(elf)


def test_the_methods_are_found_by_their_symbols(tmp_path: Path) -> None:
    path = made(tmp_path / "program", ALL_NEW, [NEW])
    found = search(path)
    assert found.versions == ("0.23.45",)
    assert (found.refused, found.doubts) == ((), ())
    assert {(each.method, each.tls_version) for each in found.found} == {
        (Method.ENCRYPT, 0x0304),
        (Method.DECRYPT, 0x0304),
        (Method.RECEIVED, None),
    }
    shown = subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout
    addresses = {int(line.split()[0], 16) for line in shown.splitlines() if "rustls" in line}
    assert {each.address for each in found.found} == addresses
    for each in found.found:
        assert (each.size, each.version, each.proof) == (1, (0, 23), Proof.SYMBOL)


@pytest.mark.parametrize(
    ("mangled", "name"),
    [
        (
            rust_files.TLS13_ENCRYPT_V0,
            "<rustls::crypto::ring::tls13::Tls13MessageEncrypter"
            " as rustls::crypto::cipher::MessageEncrypter>::encrypt",
        ),
        (
            rust_files.OWN_ENCRYPT,
            "<own_provider::aead::Sealer as rustls::crypto::cipher::MessageEncrypter>::encrypt",
        ),
        (
            rust_files.RECORD_ENCRYPT,
            "<rustls_ring::tls13::Tls13RecordEncrypter"
            " as rustls::crypto::cipher::RecordEncrypter>::encrypt",
        ),
        (rust_files.INVALID_ENCRYPT, None),
        (rust_files.CLOSURE, None),
        (rust_files.EARLY_RECEIVED, None),
        ("a_MessageEncrypter_of_C", None),
    ],
)
def test_a_cipher_is_what_implements_the_trait(
    mangled: str, name: str | None, tmp_path: Path
) -> None:
    found = search(made(tmp_path / "program", [mangled], [NEW]))
    assert [each.name for each in found.found] == ([name] if name else [])
    assert bool(found.refused) is (name is None)


@pytest.mark.parametrize(
    ("releases", "old", "new"),
    [
        (["0.20.9"], (0, 20), None),
        (["0.21.12", "0.23.45"], (0, 21), (0, 23)),
        (["0.21.12", "0.22.4"], (0, 21), (0, 22)),
        (["0.24.0-dev.0"], None, (0, 24)),
    ],
)
def test_each_function_has_the_version_that_it_can_be_of(
    releases: list[str], old: object, new: object, tmp_path: Path
) -> None:
    functions = [rust_files.OLD_ENCRYPT, rust_files.TLS13_ENCRYPT]
    found = search(made(tmp_path / "program", functions, map(source_path, releases)))
    assert found.versions == tuple(releases)
    assert {each.tls_version: each.version for each in found.found} == {0x0303: old, 0x0304: new}


def test_without_paths_the_version_is_unknown(tmp_path: Path) -> None:
    found = search(made(tmp_path / "program", ALL_NEW, ["https://docs.rs/rustls/latest"]))
    assert [(each.method, each.version) for each in found.found] == [
        (Method.ENCRYPT, None),
        (Method.DECRYPT, None),
    ]


def test_received_plaintext_is_that_of_0_23_only(tmp_path: Path) -> None:
    for release, count in (("0.22.4", 0), ("0.23.45", 1), ("0.24.0-dev.0", 0)):
        path = made(tmp_path / release, [rust_files.RECEIVED], [source_path(release)])
        assert len(search(path).found) == count


def test_a_decrypter_with_other_ways_out_is_refused(tmp_path: Path) -> None:
    path = made(tmp_path / "program", ALL_NEW, [NEW], body=rust_files.LEAVES_BY_JUMP)
    with Elf(str(path)) as elf:
        parts, left_out, _ = fit_rustls(elf)
    assert {each.program for part in parts for each in part.probes} == {
        "rustls_encrypt_enter",
        "rustls_received_enter",
    }
    assert left_out == [
        "<rustls::crypto::ring::tls13::Tls13MessageDecrypter as"
        " rustls::crypto::cipher::MessageDecrypter>::decrypt"
        " has ways out other than its return instructions",
    ]


def test_symbols_are_taken_from_the_debug_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(debug_files, "FOLDER", str(tmp_path / "debug"))
    path, debug = made(tmp_path / "program", ALL_NEW, [NEW]), tmp_path / "program.debug"
    whole = search(path)
    subprocess.run(["objcopy", "--only-keep-debug", path, debug], check=True)
    subprocess.run(["objcopy", "--strip-all", f"--add-gnu-debuglink={debug}", path], check=True)
    found = search(path)
    assert found.found == tuple(each._replace(proof=Proof.DEBUG_FILE) for each in whole.found)
    assert len(found.found) == 3
    debug.unlink()
    assert not search(path).found


@pytest.mark.parametrize("crate", ["tokio-rustls", "hyper_rustls"])
def test_other_crates_are_not_rustls(crate: str, tmp_path: Path) -> None:
    text = source_path("0.26.2").replace("/rustls", f"/{crate}")
    assert search(made(tmp_path / "program", [], [text])) == FoundMethods()
