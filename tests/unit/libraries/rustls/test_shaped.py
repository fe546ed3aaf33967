"""The methods of rustls without symbols: vtables as rustc makes them."""

import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sslsniff.core.errors import ElfError
from sslsniff.elf.elf_file import Elf
from sslsniff.libraries.rustls.plaintext_methods import (
    FoundMethods,
    Method,
    Proof,
    Refused,
    find_rustls,
)
from sslsniff.libraries.rustls.rustls_fitting import fit_rustls
from tests.unit.libraries.rustls.shape import COMPARE, DROPPED, HEAD, TLS12, TLS13, Shape
from tests.unit.rust_files import LEAVES_BY_JUMP, source_path

pytestmark = pytest.mark.tools

NEW = source_path("0.23.45")
MANUAL = "peer closed connection without sending close_notify: https://docs.rs/rustls/latest"


def search(path: Path) -> tuple[FoundMethods, dict[str, int]]:
    """Return what is found without symbols, and where the symbols were."""
    shown = subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout
    addresses = {
        name: int(address, 16) for address, name in re.findall(r"^(\w+) t (\w+)$", shown, re.M)
    }
    subprocess.run(["strip", "-s", path], check=True)
    with Elf(str(path)) as elf:
        return find_rustls(elf), addresses


@pytest.mark.parametrize("relocations", ["nopack-relative-relocs", "pack-relative-relocs"])
@pytest.mark.parametrize(
    ("shape", "tls_version"),
    [
        (Shape(), 0x0304),
        (Shape(length="lea 16(%rsi), %rax\nret", decrypt=COMPARE % TLS12), 0x0303),
        (Shape(length="lea 24(%rsi), %rax\nret", decrypt=COMPARE % TLS12), 0x0303),
        (Shape(decrypt=COMPARE % (TLS13 + 1)), 0x0304),
        (Shape(decrypt=COMPARE % (TLS13 + 16)), 0x0304),
        (Shape(decrypt="call inner\nret", inner=COMPARE % TLS13), 0x0304),
        (Shape(decrypt="call *slot(%rip)\nret", inner=COMPARE % TLS13), 0x0304),
        (
            Shape(
                decrypter=DROPPED % "40, 8, decrypt", encrypter=DROPPED % "48, 8, encrypt, length"
            ),
            0x0304,
        ),
        (Shape(between=""), 0x0304),
    ],
)
def test_a_cipher_is_known_by_its_vtables(
    shape: Shape, tls_version: int, relocations: str, tmp_path: Path
) -> None:
    found, addresses = search(shape.made(tmp_path / "program", [NEW], f"-Wl,-z,{relocations}"))
    assert (found.refused, found.doubts) == ((), ())
    assert {each.method: each.address for each in found.found} == {
        Method.ENCRYPT: addresses["encrypt"],
        Method.DECRYPT: addresses["decrypt"],
    }
    for each in found.found:
        assert (each.version, each.tls_version, each.proof) == ((0, 23), tls_version, Proof.SHAPE)


FRAMED = "push %%rbp\nmov %%rsp, %%rbp\n%s\npop %%rbp\nret"


@pytest.mark.parametrize(
    "decrypt", [f"{FRAMED % f'cmp ${TLS13}, %rsi'}", f"{FRAMED % 'call inner'}"]
)
def test_a_program_without_an_unwind_table(decrypt: str, tmp_path: Path) -> None:
    """Such as Deno, which has frame pointers, too: the paths through a function bound it."""
    shape = Shape(
        length=FRAMED % "lea 17(%rsi), %rax",
        encrypt=FRAMED % "test %rsi, %rsi\njz 1f\nnop\n1:",
        decrypt=decrypt,
        inner=COMPARE % TLS13,
    )
    path = shape.made(tmp_path / "program", [NEW], "-Wl,--no-eh-frame-hdr")
    found, addresses = search(path)
    assert (found.refused, found.doubts) == ((), ())
    assert {each.method: (each.address, each.size) for each in found.found} == {
        Method.ENCRYPT: (addresses["encrypt"], addresses["length"] - addresses["encrypt"]),
        Method.DECRYPT: (addresses["decrypt"], addresses["inner"] - addresses["decrypt"]),
    }


@pytest.mark.parametrize(
    "parts",
    [
        {"decrypt": f"cmp ${TLS13}, %rsi\nja .+3\nmov $0xc3, %eax\nret"},  # into an instruction
        {"length": "lea 17(%rsi), %rax\nnop\nret"},
        {"decrypter": f"{HEAD}, decrypt + 1"},
    ],
)
def test_without_a_proof_of_its_end_a_function_is_left_out(
    parts: dict[str, str], tmp_path: Path
) -> None:
    path = Shape(**parts).made(tmp_path / "program", [NEW], "-Wl,--no-eh-frame-hdr")
    found, _ = search(path)
    assert found.found == ()


@pytest.mark.parametrize(
    "shape",
    [
        Shape(length="lea 18(%rsi), %rax\nret"),
        Shape(length="nop\nlea 17(%rsi), %rax\nret"),  # not where a function begins
        Shape(length="lea 17(%rsi), %rax\nret\nnop"),  # nor where one ends
        Shape(decrypt=COMPARE % TLS12),
        Shape(decrypt=f"mov ${TLS13}, %esi\nret"),
        Shape(decrypter=f"{HEAD}, decrypt + 1"),
        Shape(decrypter=".quad 0, 560, 8, decrypt"),
        Shape(encrypter=".quad 0, 560, 16, encrypt + 1, length"),
        Shape(encrypter=".quad 0, 560, 3, encrypt, length"),
        Shape(encrypter=".quad 0, 561, 16, encrypt, length"),
        Shape(encrypter=".quad 0, 1 << 20, 16, encrypt, length"),
        Shape(encrypter=".quad 1, 560, 16, encrypt, length"),  # drops by what is no function
        Shape(encrypter=".quad inner + 1, 560, 16, encrypt, length"),
        Shape(encrypter=".quad 0, inner, 16, encrypt, length"),
        Shape(between=".zero 256"),
    ],
)
def test_what_is_not_quite_like_it_is_left_out(shape: Shape, tmp_path: Path) -> None:
    found, _ = search(shape.made(tmp_path / "program", [NEW]))
    assert found == FoundMethods(
        versions=("0.23.45",),
        refused=(
            Refused(
                "0.23.45",
                "its ciphers have no symbols, and nothing in the file looks like them",
            ),
        ),
    )


def test_a_decrypter_with_other_ways_out_is_refused(tmp_path: Path) -> None:
    shape = Shape(decrypt=f"cmp ${TLS13}, %rsi\n{LEAVES_BY_JUMP}")
    path = shape.made(tmp_path / "program", [NEW])
    subprocess.run(["strip", "-s", path], check=True)
    with Elf(str(path)) as elf:
        [part], left_out, unprobed = fit_rustls(elf)
    assert unprobed == []
    assert {each.program for each in part.probes} == {"rustls_encrypt_enter"}
    assert left_out == [
        "decrypt of a cipher for TLS 1.3, known by its vtable"
        " has ways out other than its return instructions",
    ]


@pytest.mark.parametrize(
    ("releases", "count", "refused"),
    [
        (["0.22.4"], 2, 0),
        (["0.21.12"], 0, 1),
        (["0.24.0-dev.2"], 2, 0),
        (["0.25.0"], 0, 1),
        (["0.21.12", "0.23.45"], 2, 1),
        (["0.22.4", "0.23.45"], 0, 2),
    ],
)
def test_only_a_known_release_is_found(
    releases: list[str], count: int, refused: int, tmp_path: Path
) -> None:
    found, _ = search(Shape().made(tmp_path / "program", list(map(source_path, releases))))
    assert len(found.found) == count
    assert len(found.refused) == refused
    assert found.versions == tuple(releases)


@pytest.mark.parametrize(
    ("files", "version", "count"),
    [
        (["crypto/tls13.rs", "msgs/message/outbound.rs"], "0.23", 2),
        (["crypto/tls13.rs", "msgs/deframer.rs"], "0.22", 2),
        (["msgs/deframer.rs"], "0.21", 0),
        (["crypto/cipher/messages.rs", "msgs/message/outbound.rs"], "0.24", 2),
    ],
)
@pytest.mark.parametrize("root", ["vendor/rustls", "/remapped"])
def test_other_paths_tell_the_version_by_their_files(
    files: list[str], version: str, count: int, root: str, tmp_path: Path
) -> None:
    texts = [MANUAL, *(f"{root}/src/{each}" for each in files)]
    found, _ = search(Shape().made(tmp_path / "program", texts))
    assert found.versions == (version,)
    assert len(found.found) == count


def test_without_paths_it_is_left_out(tmp_path: Path) -> None:
    found, _ = search(Shape().made(tmp_path / "program", [MANUAL]))
    assert found == FoundMethods(
        refused=(
            Refused(None, "its ciphers have no symbols, and no source paths tell its release"),
        )
    )
    found, _ = search(Shape().made(tmp_path / "program", ["nothing of the kind"]))
    assert found == FoundMethods()


@pytest.mark.heavy
@given(data=st.data())
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_damage_raises_nothing_else(data: st.DataObject, whole: bytes, tmp_path: Path) -> None:
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, len(whole) - 8))
        damaged[at : at + 8] = data.draw(st.binary(min_size=1, max_size=8))
    path = tmp_path / "damaged"
    path.write_bytes(damaged[: data.draw(st.integers(0, len(damaged)))])
    try:
        with Elf(str(path)) as elf:
            find_rustls(elf)
    except ElfError:
        pass


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = Shape().made(tmp_path_factory.mktemp("shape") / "program", [NEW])
    found, _ = search(path)
    assert found.found
    return path.read_bytes()
