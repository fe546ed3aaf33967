"""NSS: its functions without symbols, in real libraries and in small ones that are made for it."""

import re
from pathlib import Path

import pytest

from sslsniff.analysis.attachments import make_attachment
from sslsniff.core.errors import ElfError
from sslsniff.elf.elf_file import Elf
from sslsniff.libraries.nss.socket_operations import CONNECTS
from sslsniff.machine_code.probe_sites import Cost
from sslsniff.matching.hidden_functions import find_table, stored_functions, tails
from sslsniff.matching.object_layout import ObjectLayout
from sslsniff.matching.probe_set import Attachment, Refusal, ReturnStyle, UnfitError
from tests import libraries
from tests.workload.processes import run

FORM = CONNECTS.table
LIBRARY = """
#define FUNCTION(name) __attribute__((noinline)) int name(void *socket, void *data, int size) \\
    { return size + __COUNTER__; }
typedef int function(void *, void *, int);
FUNCTION(connects) FUNCTION(binds) FUNCTION(listens) FUNCTION(shuts) FUNCTION(closes)
FUNCTION(sends) FUNCTION(writes) FUNCTION(names) FUNCTION(peers) FUNCTION(receives)
FUNCTION(connects2) FUNCTION(shuts2) FUNCTION(closes2) FUNCTION(sends2) FUNCTION(writes2)
FUNCTION(receives2)
int reads(void *socket, void *data, int size) { return receives(socket, data, size) + 1; }
int reads2(void *socket, void *data, int size)
    { return (*(function **)socket)(socket, data, 1) + 1; }
#define TABLE(name, made) function *const name[] = {connects##made, 0, binds, listens, \\
    shuts##made, closes##made, receives##made, sends##made, reads##made, writes##made, \\
    names, peers};
TABLE(one, ) TABLE(other, 2)
"""
TAILS = """
__attribute__((noinline)) static int after(char *data, int size)
    { int sum = 0; for (int i = 0; i < size; i++) sum += data[i]; return sum; }
int outer(char *data, int size) { if (size < 0) return -1; return after(data, size); }
void store(char **object, int which) { object[2] = which ? (char *)outer : (char *)store; }
"""


def attached(
    path: Path | str, style: ReturnStyle = ReturnStyle.INSTRUCTIONS
) -> Attachment | Refusal:
    with Elf(str(path)) as elf:
        return make_attachment(elf, style)


def compiled(code: str, folder: Path) -> str:
    made = folder / "made.so"
    flags = ("-O2", "-fPIC", "-shared", "-fno-ipa-icf", "-fvisibility=hidden")
    run("gcc", *flags, "-x", "c", "-", "-o", made, stdin=code)
    return str(made)


@pytest.mark.tools
@pytest.mark.parametrize("series", libraries.NSS)
def test_each_release_is_probed(series: str) -> None:
    found = attached(libraries.library(series).path)
    assert isinstance(found, Attachment)
    [part] = found.parts
    assert (part.library, found.left_out, found.unprobed) == ("nss", (), ())
    assert str(part.version).startswith(series.removeprefix("nss-"))
    assert isinstance(part.layout, ObjectLayout)
    assert part.layout.server is not None
    programs = {program: places for (program, _), places in part.places().items()}
    counts = {program: len(places) for program, places in programs.items()}
    assert counts.pop("c_return") > 2
    assert counts == {
        "c_call_enter": 2,
        "c_handshake_enter": 2,
        "openssl_free_enter": 1,
        "c_alert_enter": 1,
        "nss_record_enter": 1,
    }
    assert Cost.EMULATED in {place.cost for place in programs["c_call_enter"]}


@pytest.mark.heavy
@pytest.mark.parametrize("style", [ReturnStyle.TRAMPOLINE, ReturnStyle.PLAIN_INSTRUCTIONS])
def test_kernels_without_cookies(style: ReturnStyle) -> None:
    found = attached(libraries.library(libraries.NSS[0]).path, style)
    assert isinstance(found, Refusal)
    assert found.is_tls
    assert found.reason == "NSS 3.61: its probes need Linux 5.15 and --returns instructions"


@pytest.mark.heavy
def test_another_architecture() -> None:
    found = attached(libraries.library(libraries.NSS[1], "arm64").path)
    assert isinstance(found, Refusal)
    assert re.fullmatch(r"NSS 3\.87[.\d]*: it is for aarch64", found.reason)


@pytest.mark.heavy
def test_a_library_without_its_tables(tmp_path: Path) -> None:
    path = libraries.library(libraries.NSS[0]).path
    whole = bytearray(path.read_bytes())
    with Elf(str(path)) as elf:
        for table in map(bytes, elf.relocation_tables()):
            at = whole.index(table)
            whole[at : at + len(table)] = bytes(len(table))
    (tmp_path / path.name).write_bytes(whole)
    found = attached(tmp_path / path.name)
    assert isinstance(found, Refusal)
    fact = "it has 0 tables of functions like that of its TLS sockets"
    assert found.reason == f"NSS 3.61: no place for its probes: {fact}"


@pytest.mark.heavy
def test_damage_is_told(tmp_path: Path) -> None:
    whole = libraries.library(libraries.NSS[0]).path.read_bytes()
    for cut in range(1000, len(whole), len(whole) // 30):
        (tmp_path / "libssl3.so").write_bytes(whole[:cut])
        with pytest.raises(ElfError):
            attached(tmp_path / "libssl3.so")


@pytest.mark.tools
def test_a_table_is_found_by_its_form(tmp_path: Path) -> None:
    with Elf(compiled(LIBRARY, tmp_path)) as elf:
        table = find_table(elf, FORM)
        assert table[6] == elf.function("receives")
        assert table[8] == elf.function("reads")
        assert table[1] is None


@pytest.mark.tools
@pytest.mark.parametrize(
    ("change", "count"),
    [
        (("TABLE(other, 2)", ""), 0),
        (("return receives(socket, data, size) + 1", "return size"), 0),
        (("(*(function **)socket)(socket, data, 1)", "receives2(socket, data, size)"), 0),
        (("TABLE(other, 2)", "TABLE(other, 2) TABLE(third, )"), 2),
    ],
    ids=["one", "passes nothing", "both pass", "two"],
)
def test_other_tables_are_refused(change: tuple[str, str], count: int, tmp_path: Path) -> None:
    with (
        Elf(compiled(LIBRARY.replace(*change), tmp_path)) as elf,
        pytest.raises(UnfitError, match=f"^it has {count} tables"),
    ):
        find_table(elf, FORM)


@pytest.mark.tools
@pytest.mark.parametrize("is_shared", [False, True])
def test_what_a_function_jumps_to_is_its_own(is_shared: bool, tmp_path: Path) -> None:
    """Unless another one goes there, too: its returns would be seen."""
    other = "int another(char *data) { return after(data, 5) + 1; }" if is_shared else ""
    with Elf(compiled(TAILS + other, tmp_path)) as elf:
        outer = elf.function("outer")
        assert outer is not None
        found = tails(elf, outer)
        assert len(found) == (not is_shared)
        for address, returns in found.items():
            inner = elf.function_at(address)
            assert inner is not None
            assert inner != outer
            assert all(0 <= each - address < inner.size for each in returns)


@pytest.mark.tools
def test_functions_that_are_stored_in_the_object(tmp_path: Path) -> None:
    with Elf(compiled(TAILS, tmp_path)) as elf:
        stores = elf.function("store")
        assert stores is not None
        assert list(stored_functions(elf, stores, "rsi")) == []
        assert {*stored_functions(elf, stores, "rdi")} == {elf.function("outer"), stores}
