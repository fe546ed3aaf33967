"""The functions of BoringSSL in real programs, without their symbols."""

import json
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from sslsniff.cli.tls_functions import print_tls_functions
from sslsniff.core.errors import ElfError
from sslsniff.elf.elf_file import Elf
from sslsniff.libraries.boringssl.functions_without_symbols import find_ssl_functions
from sslsniff.matching.stripped.evidence import FoundSsl

CACHE = Path(__file__).parents[4] / ".cache"
WHEELS = "wheels/lib/python3*/site-packages"
PROGRAMS = {
    "grpcio": f"{WHEELS}/grpc/_cython/cygrpc.*.so",
    "curl_cffi": f"{WHEELS}/curl_cffi/_wrapper.abi3.so",
}
USED = {"SSL_read", "SSL_write", "SSL_do_handshake", "SSL_shutdown", "SSL_new", "SSL_free"}


def program(name: str) -> Path:
    [path] = CACHE.glob(PROGRAMS[name])
    return path


def proved(found: FoundSsl) -> dict[str, int]:
    return {e.name: e.function.address for e in found.functions if e.is_proved and e.function}


@pytest.fixture(scope="module")
def stripped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """curl_cffi's module, which is shipped with symbols, without them."""
    path = tmp_path_factory.mktemp("stripped") / "wrapper.so"
    shutil.copy(program("curl_cffi"), path)
    subprocess.run(["strip", str(path)], check=True)
    return path


@pytest.fixture(scope="module")
def symbols() -> dict[str, int]:
    """The addresses of curl_cffi's functions by their symbols."""
    with Elf(str(program("curl_cffi"))) as elf:
        return {symbol.name: symbol.function.address for symbol in elf.functions()}


@pytest.mark.heavy
def test_they_are_where_the_symbols_are(stripped: Path, symbols: dict[str, int]) -> None:
    with Elf(str(stripped)) as elf:
        assert elf.function("SSL_read") is None
        found = proved(find_ssl_functions(elf))
    assert {*found} >= USED | {"SSL_peek", "SSL_set_tlsext_host_name"}
    inner = found.pop("ssl_read_impl")
    assert found == {name: symbols[name] for name in found}
    assert [inner] == [at for name, at in symbols.items() if "ssl_read_impl" in name]


@pytest.mark.heavy
def test_a_wheel_without_symbols_has_them() -> None:
    with Elf(str(program("grpcio"))) as elf:
        found = find_ssl_functions(elf)
    assert found.library == "boringssl"
    assert found.refusal is None
    assert {*proved(found)} >= USED


@pytest.mark.heavy
def test_no_function_is_wrong_in_a_damaged_copy(
    stripped: Path, symbols: dict[str, int], tmp_path: Path
) -> None:
    numbers = random.Random(17)
    whole = stripped.read_bytes()
    with Elf(str(stripped)) as elf:
        places = [elf.offset(symbols[name]) for name in sorted(USED)]
    damaged = tmp_path / "damaged.so"
    refused = 0
    for _ in range(12):
        copy = bytearray(whole)
        for _ in range(20):
            at = numbers.choice(places) + numbers.randrange(0x200)
            copy[at] = numbers.randrange(256)
        damaged.write_bytes(copy)
        try:
            with Elf(str(damaged)) as elf:
                found = proved(find_ssl_functions(elf))
        except ElfError:
            continue
        found.pop("ssl_read_impl", None)
        assert found == {name: symbols[name] for name in found}
        refused += not {*found} >= USED
    assert refused  # else the damage was nowhere that matters


@pytest.mark.parametrize("name", ["/usr/bin/python3", "/bin/ls"])
def test_a_program_without_the_library_is_refused(name: str) -> None:
    with Elf(name) as elf:
        found = find_ssl_functions(elf)
    assert found.refusal == "it has no text that ends with ssl/ssl_lib.cc"
    assert not found.functions


@pytest.mark.heavy
def test_the_command_shows_the_evidence(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(program("grpcio"))
    assert print_tls_functions(path) == 0
    shown = capsys.readouterr().out
    assert "BoringSSL by the errors of third_party/boringssl-with-bazel/ssl/ssl_lib.cc" in shown
    assert "  for: it returns -1, 0, what a callee returned or what a callee stored" in shown
    assert print_tls_functions(path, as_json=True) == 0
    decided, library, *functions = map(json.loads, capsys.readouterr().out.splitlines())
    assert decided["type"] == "tls_file"
    assert decided["said"][0].startswith("boringssl is probed at ")
    assert library["type"] == "tls_library"
    assert library["fields"].keys() >= {"server", "sni"}
    assert library["refusal"] is None
    write = next(each for each in functions if each["name"] == "SSL_write")
    assert write["proved"] is True
    assert [each["reason"] for each in write["lines"]] == [66, 226, 215, 111]


def test_the_command_says_why_there_is_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert print_tls_functions("/bin/ls") == 1
    assert "are not found: it has no text that ends with" in capsys.readouterr().out
