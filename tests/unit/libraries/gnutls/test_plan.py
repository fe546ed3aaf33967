"""The plan for GnuTLS in each of Debian's versions, in damaged copies and in libraries like it."""

import contextlib
import subprocess
from pathlib import Path

import pytest

from sslsniff.analysis.attachments import make_attachment
from sslsniff.core.errors import ElfError
from sslsniff.elf.elf_file import Elf
from sslsniff.machine_code.probe_sites import Cost
from sslsniff.matching.probe_set import Attachment, Refusal, ReturnStyle
from tests import libraries
from tests.unit.analysis.test_attachments import compiled, only_part

RECEIVED = {"c_call_enter", "c_return"}
ALL = {
    *(*RECEIVED, "c_record_enter", "c_read_plain_enter", "gnutls_packet_enter"),
    *("c_handshake_enter", "c_alert_enter", "openssl_free_enter"),
    *("gnutls_verify_enter", "gnutls_verify_return"),
}
NEWEST_WITH_ONE_READ = "gnutls-3.7.1"
"""Later ones read from another function if the kernel does the cryptography."""


def attempt(path: Path, style: ReturnStyle = ReturnStyle.INSTRUCTIONS) -> Attachment | Refusal:
    with Elf(str(path)) as elf:
        return make_attachment(elf, style)


def refusal(path: Path, style: ReturnStyle = ReturnStyle.INSTRUCTIONS) -> Refusal:
    found = attempt(path, style)
    assert isinstance(found, Refusal), found
    assert "\n" not in found.reason + found.remedy
    return found


def copy(tmp_path: Path, replace: dict[bytes, bytes], series: str = "gnutls-3.7.9") -> Path:
    """Return a copy of a library in which bytes are replaced by others, as many."""
    data = libraries.library(series).path.read_bytes()
    for old, new in replace.items():
        assert old in data
        data = data.replace(old, new.ljust(len(old), b"\0"))
    path = tmp_path / "libgnutls.so.30"
    path.write_bytes(data)
    return path


def without_code(tmp_path: Path, name: str) -> Path:
    """Return a copy of a library in which a function has other code, and no more."""
    path = libraries.library("gnutls-3.7.9").path
    data = bytearray(path.read_bytes())
    with Elf(str(path)) as elf:
        function = elf.function(name)
        assert function is not None
        start = elf.offset(function.address)
    data[start : start + function.size] = b"\x90" * (function.size - 1) + b"\xc3"
    changed = tmp_path / "libgnutls.so.30"
    changed.write_bytes(data)
    return changed


@pytest.mark.tools
@pytest.mark.parametrize("series", libraries.GNUTLS)
def test_every_row_is_found(series: str) -> None:
    library = libraries.library(series)
    found = attempt(library.path)
    assert isinstance(found, Attachment), found
    assert found.left_out == ()
    assert found.unprobed == ()
    part = only_part(found)
    assert part.library == "gnutls"
    assert part.version is not None
    assert library.version.startswith(part.version)
    assert {each.program for each in part.probes} == ALL
    counts = [each.program for each in part.probes].count
    assert counts("c_record_enter") == 1
    # One place for reads, and where the kernel may do the cryptography one more each.
    has_ktls = series != NEWEST_WITH_ONE_READ
    assert counts("c_call_enter") == (3 if has_ktls else 1)
    assert not any(each.is_return for each in part.probes)
    entries = {each.cost for each in part.probes if not each.program.endswith("_return")}
    assert entries == {Cost.EMULATED}


@pytest.mark.tools
def test_all_is_found_without_local_symbols() -> None:
    """Debian's libraries have none, so the test above is about stripped ones."""
    for series in libraries.GNUTLS:
        with Elf(str(libraries.library(series).path)) as elf:
            assert elf.section_address(".symtab") is None


@pytest.mark.tools
@pytest.mark.parametrize("series", ["gnutls-3.7.1", "gnutls-3.7.9"])
def test_reads_and_writes_are_cheap(series: str) -> None:
    found = attempt(libraries.library(series).path)
    assert isinstance(found, Attachment)
    with Elf(found.path) as elf:
        [record] = [each for each in found.probes if each.program == "c_record_enter"]
        [read] = [
            each
            for each in found.probes
            if each.program == "c_call_enter" and abs(each.offset - record.offset) < 1 << 14
        ]
        function = elf.function_at(read.offset)
    assert function is not None
    inside = range(read.offset, read.offset + function.size)
    assert {each.cost for each in found.probes if each.offset in inside} == {Cost.EMULATED}


@pytest.mark.tools
@pytest.mark.parametrize("is_stripped", [False, True])
def test_linked_into_a_program(tmp_path: Path, is_stripped: bool) -> None:
    """With its symbols it is found; without them it cannot be."""
    names = ["init", "handshake", "deinit", "protocol_get_version"]
    names += [f"record_{each}" for each in ("send", "recv", "recv_seq", "recv_packet")]
    names += [f"record_{each}_early_data" for each in ("send", "recv")]
    declared = "".join(f"void gnutls_{each}(void);\n" for each in names)
    called = "".join(f"gnutls_{each}();" for each in names)
    program = tmp_path / "program"
    options = ["-Wl,--unresolved-symbols=ignore-all", *(["-s"] if is_stripped else [])]
    subprocess.run(
        ["gcc", "-x", "c", "-", "-x", "none", "-l:libgnutls.a", *options, "-o", program],
        input=f"{declared}int main(void) {{ {called} return 0; }}".encode(),
        check=True,
    )
    if is_stripped:
        assert refusal(program).reason == "there is no TLS library in it that sslsniff knows"
        return
    found = attempt(program)
    assert isinstance(found, Attachment), found
    assert (found.left_out, only_part(found).library) == ((), "gnutls")
    assert {each.program for each in found.probes} == ALL


@pytest.mark.tools
@pytest.mark.parametrize("style", [ReturnStyle.TRAMPOLINE, ReturnStyle.PLAIN_INSTRUCTIONS])
def test_without_cookies_it_is_refused(style: ReturnStyle) -> None:
    found = refusal(libraries.library("gnutls-3.7.9").path, style)
    assert found.reason == "GnuTLS 3.7.9: its probes need Linux 5.15 and --returns instructions"
    assert found.remedy == "use a newer kernel, or leave --returns out"
    assert [each.library for each in found.unprobed] == ["gnutls"]


@pytest.mark.heavy
def test_another_architecture_is_refused() -> None:
    found = refusal(libraries.library("gnutls-3.7.9", "arm64").path)
    assert found.reason == "GnuTLS 3.7.9: it is for aarch64"
    assert found.remedy == "only x86-64 programs can be watched"


@pytest.mark.tools
def test_an_unknown_version_is_probed_all_the_same(tmp_path: Path) -> None:
    found = attempt(copy(tmp_path, {b"Enabled GnuTLS 3.": b"Enabled GnuTLS x."}))
    assert isinstance(found, Attachment)
    assert only_part(found).version is None
    assert {each.program for each in found.probes} == ALL


@pytest.mark.tools
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("gnutls_record_send2", "gnutls_record_send2 hands no calls on"),
        ("gnutls_record_recv", "gnutls_record_recv hands no calls on"),
        ("gnutls_record_recv_seq", "gnutls_record_recv_seq hands no calls on"),
    ],
)
def test_other_code_is_refused(tmp_path: Path, name: str, reason: str) -> None:
    found = refusal(without_code(tmp_path, name))
    assert found.reason == f"GnuTLS 3.7.9: no place for its probes: {reason}"
    assert found.is_tls


@pytest.mark.tools
def test_a_missing_function_is_refused(tmp_path: Path) -> None:
    found = refusal(copy(tmp_path, {b"\0gnutls_record_send2\0": b"\0gnutls_record_sendX"}))
    assert found.reason == "GnuTLS 3.7.9: no place for its probes: there is no gnutls_record_send2"


@pytest.mark.tools
def test_a_library_that_is_only_named_like_it(tmp_path: Path) -> None:
    """All its functions are there, but they hand nothing on."""
    names = ("send", "recv", "send2", "recv_seq")
    source = "".join(f"long gnutls_record_{each}(void) {{ return 0; }}\n" for each in names)
    found = refusal(compiled(tmp_path, source + "int gnutls_init(void) { return 0; }\n"))
    assert found.reason.startswith("GnuTLS: no place for its probes: gnutls_record_")


@pytest.mark.tools
@pytest.mark.parametrize("kept", [100, 4096, 300_000, 1_000_000])
def test_a_damaged_copy_is_refused(tmp_path: Path, kept: int) -> None:
    data = libraries.library("gnutls-3.7.9").path.read_bytes()
    path = tmp_path / "libgnutls.so.30"
    path.write_bytes(data[:kept])
    with contextlib.suppress(ElfError):
        assert isinstance(attempt(path), Refusal)
