"""Which inner functions do the work of public ones: in real libraries, and in made-up ones."""

import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from sslsniff.elf.elf_file import Elf
from sslsniff.libraries.openssl import plan as openssl
from sslsniff.machine_code.call_chains import Link, UnfollowedError
from sslsniff.machine_code.call_steps import body_of
from sslsniff.machine_code.conventions import Signature
from sslsniff.matching import fitting
from sslsniff.matching.probe_set import ReturnStyle
from sslsniff.matching.rows import Row
from tests import libraries
from tests.unit.machine_code.encodings import AT
from tests.workload.node import NODE


def library(series: str) -> Path:
    return libraries.library(series).path


LIBRARIES: dict[str, Callable[[], Path]] = {
    **{series: partial(library, series) for series in libraries.OPENSSL},
    "Node.js": lambda: NODE,
}


def links(elf: Elf) -> list[Link]:
    """Return the inner functions of both directions."""
    rows = openssl._READ_INNER, openssl._WRITE_INNER
    return [link for row in rows for link in follow(elf, row)]


def follow(elf: Elf, row: Row) -> list[Link]:
    chains = fitting._Fitting(elf, ReturnStyle.INSTRUCTIONS)._chains
    return chains.follow(dict(row.outer), dict(row.others))


# ssl3_read_internal(ssl, buffer, size, peek, count), which SSL_peek calls with 1
READS = Signature("rdi", "rsi", "r8", ("rcx", 0))
# ssl3_write_bytes(ssl, type, buffer, size, count): SSL3_RT_APPLICATION_DATA is 23
WRITES = Signature("rdi", "rdx", "r8", ("rsi", 23))
# do_dtls1_write has an argument more before 3.2
DATAGRAMS = WRITES, Signature("rdi", "rdx", "r9", ("rsi", 23))
# quic_read(ssl, buffer, size, count, peek), ossl_quic_write_flags(ssl, buffer, size, flags, count)
QUIC = [(Signature("rdi", "rsi", "rcx", ("r8", 0)), False), (Signature("rdi", "rsi", "r8"), False)]
OLD = [(READS, True), (WRITES, True), (DATAGRAMS[1], False)]
NEW = [(READS, True), (WRITES, True), (DATAGRAMS[0], False), *QUIC]
EXPECTED = {"1.1.1": OLD, "3.0": OLD, "3.5": NEW, "3.6": NEW, "4.0": NEW}


@pytest.mark.tools
@pytest.mark.parametrize("series", EXPECTED)
def test_inner_functions_of_real_libraries(series: str) -> None:
    """All of them have cheap places."""
    with Elf(str(library(series))) as elf:
        found = links(elf)
    assert {(each.signature, each.is_usual) for each in found} == set(EXPECTED[series])
    assert len(found) == len(EXPECTED[series])
    assert all(each.pair for each in found)


@pytest.mark.heavy
def test_inner_functions_by_name() -> None:
    """Node.js has a symbol table: these are the functions that are meant."""
    expected = {
        "ssl3_read": (Signature("rdi", "rsi", "rcx"), True),
        "ossl_quic_read": (Signature("rdi", "rsi", "rcx"), False),
        "ssl3_write_bytes": (WRITES, True),
        "dtls1_write_bytes": (WRITES, False),
        "ossl_quic_write_flags": (Signature("rdi", "rsi", "r8"), False),
    }
    with Elf(str(NODE)) as elf:
        found = links(elf)
        named = {elf.function(name): values for name, values in expected.items()}
    assert {each.function: (each.signature, each.is_usual) for each in found} == named
    assert [each.pair is None for each in found if not each.is_usual].count(True) == 1


def test_copies_of_a_function_are_looked_at_once() -> None:
    """But not the same code elsewhere: its calls lead to other functions."""
    assert body_of(b"\xc3", AT) is body_of(b"\xc3", AT)
    assert body_of(b"\xc3", AT) is not body_of(b"\xc3", AT + 1)


TYPES = """
typedef unsigned long z;
typedef struct ssl S;
typedef struct { int version; int (*read)(S *, void *, z, z *); } M;
struct ssl { const M *method; int error; };
#define OUT __attribute__((noinline, visibility("hidden")))
"""
INNER = """
OUT int work(S *s, char *b, z n, int kind, z *d) {
    if (!s->error)
        return -1;
    for (z i = 0; i < n; i++)
        b[i] = kind;
    *d = n;
    if (s->error > 5) s->error = 5;
    return 1;
}
OUT int inner(S *s, void *b, z n, z *d) { return work(s, b, n, 0, d); }
OUT int peek(S *s, void *b, z n, z *d) { return work(s, b, n, 1, d); }
"""
TABLES = """
static const M methods = {1, inner};
const M *TLS_method(void) { return &methods; }
const M *DTLS_method(void) { return TLS_method(); }
"""
THROUGH = "OUT int through(S *s, void *b, z n, z *d) { return s->method->read(s, b, n, d); }"
PUBLIC = """
int SSL_read(S *s, void *b, int n) {
    z d; int r = through(s, b, n, &d); return r > 0 ? (int)d : r; }
int SSL_read_ex(S *s, void *b, z n, z *d) { int r = through(s, b, n, d); return r < 0 ? 0 : r; }
int SSL_peek_ex(S *s, void *b, z n, z *d) { return peek(s, b, n, d); }
"""


def compiled(folder: Path, source: str) -> Path:
    path = folder / "library.so"
    options = ("-O2", "-shared", "-fPIC", "-fno-inline", "-Wl,-Bsymbolic", "-g0")
    command = ["gcc", *options, "-x", "c", "-", "-o", str(path)]
    subprocess.run(command, input=source.encode(), check=True)
    return path


def work_of(folder: Path, *source: str) -> list[tuple[str, Signature]]:
    """Return the inner functions by which a library reads."""
    path = compiled(folder, TYPES + "".join(source))
    with Elf(str(path)) as elf:
        names = {symbol.function.address: symbol.name for symbol in elf.functions()}
        found = follow(elf, openssl._READ_INNER)
        return sorted((names[each.function.address], each.signature) for each in found)


@pytest.mark.tools
def test_a_made_up_library(tmp_path: Path) -> None:
    assert work_of(tmp_path, INNER, TABLES, THROUGH, PUBLIC) == [("work", READS)]


@pytest.mark.tools
def test_a_table_that_no_public_function_returns(tmp_path: Path) -> None:
    """It is known by a function that it shares; what it has elsewhere is followed, too."""
    tables = """
    OUT int rare(S *s, void *b, z n, z *d) { *d = n + s->error; return s == b; }
    typedef struct { M m; int (*read)(S *, void *, z, z *); } T;
    static const T seldom = {{1, inner}, rare}, usual = {{1, inner}, inner};
    const T *volatile kept = &seldom;
    const T *TLS_method(void) { return &usual; }
    """
    through = THROUGH.replace("s->method->read", "((T *)s->method)->read")
    first = """
    int SSL_read(S *s, void *b, int n) { z d; int r = s->method->read(s, b, n, &d);
        return r > 0 ? (int)d : r; }
    int SSL_read_ex(S *s, void *b, z n, z *d) { return through(s, b, n, d); }
    """
    found = work_of(tmp_path, INNER, tables, through, first)
    assert [name for name, _ in found] == ["rare", "work"]


SOURCE = INNER + TABLES.replace("return TLS_method()", "return &methods") + THROUGH + PUBLIC


@pytest.mark.tools
@pytest.mark.parametrize(
    ("old", "new"),
    [
        # Success may come from elsewhere.
        ("return s->method->read(s, b, n, d)", "return s->method->read(s, b, n, d) + 1"),
        ("return s->method->read", "return s->error ? s->error : s->method->read"),
        # Something else is handed on.
        ("s->method->read(s, b, n, d)", "s->method->read(s, b + 1, n, d)"),
        ("return s->method->read(s", "return s->method->read(s + 1"),
        # Nobody knows to what.
        ("return s->method->read(s", "extern M *m; return m->read(s"),
    ],
)
def test_a_function_that_does_not_hand_all_on(old: str, new: str, tmp_path: Path) -> None:
    """It does the work itself."""
    assert old in SOURCE
    found = work_of(tmp_path, SOURCE.replace(old, new))
    assert found == [("through", Signature("rdi", "rsi", "rcx"))]


@pytest.mark.tools
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"int r = through(s, b, n, d);": "int r = s->error ? 1 : through(s, b, n, d);"}, "hand"),
        ({"z d; int r = through(s, b, n, &d)": "z d = n, e; int r = through(s, b, n, &e)"}, "hand"),
        ({"TLS_method": "a_method"}, "no function"),
        ({"{1, inner}": "{1, 0}"}, "no function"),
        ({"int kind, z *d) {": "int kind, z *d, int more) { if (more == 2) return 0;",
          "n, 0, d)": "n, 0, d, 3)", "n, 1, d)": "n, 1, d, 3)"}, "kinds"),
        ({"return r < 0 ? 0 : r; }": "return r < 0 ? 0 : r; } // ",
          "int SSL_read_ex(S *s, void *b, z n, z *d) { int r = through(s, b, n, d);":
          "int SSL_read_ex(S *s, void *b, z n, z *d) { int r = work(s, d, n, 0, b); return r; }//"},
         "several ways"),
        # What it calls in turn may be another such function, which would see the same bytes.
        ({"    for (": "    extern int far(S *, char *, z, int, z *);"
          " if (n == 9) { int r = far(s, b, n, kind, d); s->error = 0; return r; }    for ("},
         "no function"),
        # Calls that peek come to it in the same way.
        ({"work(s, b, n, 1, d)": "work(s, b, n, 0, d)"}, "not all of one kind"),
        ({"work(s, b, n, 1, d)": "work(s, b, n, s->error, d)"}, "not all of one kind"),
    ],
)  # fmt: skip
def test_what_cannot_be_followed(changes: dict[str, str], reason: str, tmp_path: Path) -> None:
    source = SOURCE
    for old, new in changes.items():
        assert old in source
        source = source.replace(old, new)
    with pytest.raises(UnfollowedError, match=reason):
        work_of(tmp_path, source)
