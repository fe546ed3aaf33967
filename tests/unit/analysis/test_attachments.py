"""One file -> its probes, with real libraries and made-up ones; what is refused."""

import subprocess
from collections import Counter
from pathlib import Path

import pytest

from sslsniff.analysis.attachments import make_attachment
from sslsniff.elf.elf_file import Elf
from sslsniff.machine_code.probe_sites import Cost
from sslsniff.matching.object_layout import ObjectLayout
from sslsniff.matching.probe_set import Attachment, Probe, ProbedLibrary, Refusal, ReturnStyle
from tests import libraries
from tests.workload.node import NODE

TRAMPOLINE, INSTRUCTIONS = ReturnStyle.TRAMPOLINE, ReturnStyle.INSTRUCTIONS
PLAIN_INSTRUCTIONS = ReturnStyle.PLAIN_INSTRUCTIONS
INTERNAL = {"c_read_enter", "c_write_enter"}
INTERNAL_FLAGS = {"c_read_enter", "c_write_flags_enter"}
PLAIN = {"c_read_plain_enter", "c_write_plain_enter"}
LIFE = {"openssl_free_enter", "openssl_clear_enter", "openssl_shutdown_enter"}
FATAL = {"openssl_fatal_enter", "openssl_fatal_line_enter"}
OF_BORINGSSL = {
    "openssl_new_return",
    "boringssl_handshake_enter",
    "boringssl_handshake_return",
}
DATA = INTERNAL | INTERNAL_FLAGS | PLAIN


def attempt(path: Path | str, style: ReturnStyle) -> Attachment | Refusal:
    with Elf(str(path)) as elf:
        return make_attachment(elf, style)


def attach(path: Path | str, style: ReturnStyle = TRAMPOLINE) -> Attachment:
    found = attempt(path, style)
    assert isinstance(found, Attachment), found
    return found


"""Node.js 24, with OpenSSL 3.5 linked in."""


def only_part(found: Attachment) -> ProbedLibrary:
    [part] = found.parts
    return part


def compiled(folder: Path, source: str) -> Path:
    path = folder / "library.so"
    subprocess.run(
        ["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", path],
        input=source.encode(),
        check=True,
    )
    return path


@pytest.mark.tools
@pytest.mark.parametrize(
    ("series", "data"),
    [
        ("1.1.1", INTERNAL),
        ("3.0", INTERNAL),
        ("3.5", INTERNAL_FLAGS),
        ("boringssl", PLAIN),
    ],
)
def test_with_return_probes_one_cheap_place_sees_all_calls_of_a_kind(
    series: str, data: set[str]
) -> None:
    found = attach(libraries.library(series).path)
    assert only_part(found).library == ("boringssl" if series == "boringssl" else "openssl")
    assert found.build_id
    entries = {each.program: each for each in found.probes if each.program in DATA}
    assert entries.keys() == data
    for entry in entries.values():
        assert entry.cost is Cost.EMULATED
        assert not entry.is_return
        assert found.probes.count(Probe("c_return", entry.offset, True, Cost.EMULATED)) == 1
    life = LIFE if series != "boringssl" else {*LIFE, *OF_BORINGSSL}
    if series != "boringssl":
        life = life | {"openssl_fatal_line_enter" if series == "1.1.1" else "openssl_fatal_enter"}
    assert {each.program for each in found.probes} - DATA == {*life, "c_return"} | (
        {"c_sendfile_enter"} if series in {"3.0", "3.5"} else set()
    )


@pytest.mark.tools
@pytest.mark.parametrize(
    ("series", "style"),
    [
        *((each, PLAIN_INSTRUCTIONS) for each in libraries.OPENSSL),
        ("3.6", TRAMPOLINE),
        ("4.0", TRAMPOLINE),
    ],
)
def test_where_the_internal_function_is_dear_the_usual_ones_are_not(
    series: str, style: ReturnStyle
) -> None:
    """SSL_read and SSL_write; other calls of the internal functions are probed by themselves."""
    path = libraries.library(series).path
    found = attach(path, style)
    data = [each for each in found.probes if each.program in DATA]
    assert {each.cost for each in data} == {Cost.EMULATED}
    inner = INTERNAL_FLAGS if series >= "3.3" else INTERNAL
    # SSL_read_ex and SSL_write_ex (or SSL_write_ex2), and BIO_f_ssl's functions.
    counts = Counter(each.program for each in data)
    assert counts == {**dict.fromkeys(PLAIN, 1), **dict.fromkeys(inner, 2)}
    with Elf(str(path)) as elf:
        for each in data:
            if each.program in inner:
                assert elf.data(elf_address(elf, each.offset), 1) == b"\xe8"
                at_return = Probe("c_return", each.offset + 5, False, Cost.STEPPED)
                assert found.probes.count(at_return) == 1
        for name in ("SSL_read", "SSL_write"):
            function = elf.function(name)
            assert function is not None
            start = elf.offset(function.address)
            inside = [each for each in found.probes if start <= each.offset < start + function.size]
            assert [(each.program == "c_return", each.cost) for each in inside] == [
                (False, Cost.EMULATED),
                (True, Cost.EMULATED),
            ]


@pytest.mark.slow
@pytest.mark.parametrize("series", [*libraries.OPENSSL, "boringssl"])
def test_with_cookies_all_places_of_data_are_cheap(series: str) -> None:
    found = attach(libraries.library(series).path, INSTRUCTIONS)
    costs = {each.cost for each in found.probes if each.program not in OF_BORINGSSL}
    assert costs == {Cost.EMULATED}
    assert found.left_out == ()
    data = {each.program for each in found.probes} - LIFE - FATAL - {"c_sendfile_enter"}
    plain = {*PLAIN, "c_return", *OF_BORINGSSL}
    assert data == (plain if series == "boringssl" else {"c_call_enter", "c_return"})


@pytest.mark.heavy
def test_with_cookies_nearly_all_places_in_a_program_are_cheap() -> None:
    """But those of DTLS, whose count is stored after the last of them."""
    found = attach(str(NODE), INSTRUCTIONS)
    assert found.left_out == ()
    dear = [each for each in found.probes if each.cost is Cost.STEPPED]
    with Elf(str(NODE)) as elf:
        function = elf.function("dtls1_write_bytes")
        assert function is not None
        start = elf.offset(function.address)
    assert {each.program for each in dear} == {"c_return"}
    assert all(start <= each.offset < start + function.size for each in dear)


def elf_address(elf: Elf, offset: int) -> int:
    """Return the address of code by its place in the file: here they differ by whole pages."""
    return next(
        memory.address + inside
        for memory in elf.executable()
        if 0 <= (inside := offset - elf.offset(memory.address)) < len(memory.data)
    )


@pytest.mark.tools
@pytest.mark.parametrize("series", [*libraries.OPENSSL, "boringssl"])
def test_without_cookies_the_calling_convention_must_do(series: str) -> None:
    path = libraries.library(series).path
    found = attach(path, PLAIN_INSTRUCTIONS)
    assert not any(each.is_return or each.convention for each in found.probes)
    data = path.read_bytes()
    for each in found.probes:
        if each.program == "openssl_new_return":
            assert data[each.offset : each.offset + 2].removeprefix(b"\xf3")[:1] == b"\xc3"


@pytest.mark.heavy
@pytest.mark.parametrize("style", [TRAMPOLINE, PLAIN_INSTRUCTIONS])
def test_a_program_with_the_library_inside(style: ReturnStyle) -> None:
    """Node.js: the internal functions are compiled into the public ones, even into those for early
    data: none leads to another.
    """
    found = attach(str(NODE), style)
    part = only_part(found)
    assert part.library == "openssl"
    assert isinstance(part.layout, ObjectLayout)
    of_go = dict.fromkeys(
        ("client", "sni_length", "handshakes", "socket_type", "handshake_error", "read_error"), 0
    )
    of_others = dict.fromkeys(
        ("server_value", "server_mask", "version_base", "settled", "alert"), 0
    )
    by_release = {"alpn_base": 0, "random_base": 0}
    assert None not in part.layout._replace(**by_release, **of_go, **of_others)
    with Elf(str(NODE)) as elf:
        expected = {
            (program, elf.offset(function.address))
            for program, name in [
                ("c_read_plain_enter", "SSL_read"),
                ("c_read_enter", "SSL_read_ex"),
                ("c_read_enter", "SSL_read_early_data"),
                ("c_write_plain_enter", "SSL_write"),
                ("c_write_enter", "SSL_write_ex"),
                ("c_write_flags_enter", "SSL_write_ex2"),
                ("c_write_enter", "SSL_write_early_data"),
            ]
            if (function := elf.function(name)) is not None
        }
    entries = {(each.program, each.offset) for each in found.probes if each.program in DATA}
    near = {
        (program, start)
        for program, offset in entries
        for other, start in expected
        if program == other and 0 <= offset - start < 8
    }
    assert len(near) == len(entries)
    assert near == expected
    assert not found.left_out
    assert all(each.cost is Cost.EMULATED for each in found.probes if each.program in DATA)


@pytest.mark.tools
@pytest.mark.parametrize(
    ("inner", "rows"),
    [
        # It is a jump or a call: what calls it must not count twice.
        ("SSL_write(s, b, n)", {"c_read_plain_enter", "c_write_plain_enter"}),
        (
            "(int)(*d = n) + (s == b)",
            {"c_read_plain_enter", "c_write_plain_enter", "c_write_enter"},
        ),
    ],
)
def test_what_leads_to_a_probed_function_is_not_probed(
    tmp_path: Path, inner: str, rows: set[str]
) -> None:
    path = compiled(
        tmp_path,
        "typedef unsigned long z;"
        "int SSL_read(void *s, void *b, int n) { return s == b; }"
        "int SSL_write(void *s, void *b, int n) { return s != b; }"
        "void *SSL_new(void) { return 0; }"
        f"int SSL_write_ex(void *s, void *b, z n, z *d) {{ return {inner}; }}",
    )
    for style in ReturnStyle:
        found = attempt(path, style)
        if isinstance(found, Attachment):
            assert {each.program for each in found.probes} & DATA == rows
        else:  # a jump to the other function is no return
            assert style is not TRAMPOLINE


@pytest.mark.tools
def test_other_libraries_are_no_openssl() -> None:
    """Though wolfSSL is made to stand in for OpenSSL, and its texts name functions of that."""
    found = attempt(libraries.library("wolfssl-5.5").path, TRAMPOLINE)
    assert isinstance(found, Attachment)
    assert [each.library for each in found.parts] == ["wolfssl"]


def test_a_library_that_only_calls_openssl_is_none() -> None:
    import _ssl

    assert isinstance(attempt(_ssl.__file__, TRAMPOLINE), Refusal)


@pytest.mark.tools
@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("int SSL_write(void *s) { return s != 0; }", None),
        (
            "int (*inner)(void); int SSL_write(void *s) { return inner(); }",
            "SSL_write has ways out other than its return instructions",
        ),
    ],
)
def test_a_plan_that_does_not_fit_is_refused(
    tmp_path: Path, source: str, reason: str | None
) -> None:
    others = "int SSL_read(void *s) { return s == 0; } void *SSL_new(void) { return 0; }"
    path = compiled(tmp_path, source + others)
    found = attempt(path, INSTRUCTIONS)
    if reason is None:
        assert isinstance(found, Attachment)
        assert found.left_out == ()
    else:
        assert isinstance(found, Refusal)
        assert found.is_tls
        assert reason in found.reason
