"""The probes in a program with OpenSSL linked in and stripped."""

from pathlib import Path

import pytest

from sslsniff.analysis import result_cache
from sslsniff.analysis.attachments import make_attachment
from sslsniff.elf.elf_file import Elf
from sslsniff.libraries.openssl.functions_without_symbols import find_openssl_functions
from sslsniff.libraries.openssl.plan_without_symbols import missing_functions, plan_found_functions
from sslsniff.matching.probe_set import Attachment, Refusal, ReturnStyle
from sslsniff.matching.rows import At
from tests.unit.libraries.openssl.test_functions_without_symbols import (  # noqa: F401 - fixtures
    find,
    program,
    stripped,
)
from tests.workload.node import NODE

pytestmark = pytest.mark.heavy


def plan(path: Path, style: ReturnStyle = ReturnStyle.INSTRUCTIONS) -> Attachment | Refusal:
    with Elf(str(path)) as elf:
        return make_attachment(elf, style)


@pytest.mark.parametrize("style", ReturnStyle)
def test_all_reads_and_writes_are_probed(stripped: Path, style: ReturnStyle) -> None:  # noqa: F811
    found = plan(stripped, style)
    assert isinstance(found, Attachment)
    [part] = found.parts
    assert (part.library, part.found_by) == ("openssl", "errors in its code")
    assert {each.program for each in part.probes} == {
        "c_read_enter",
        "c_write_enter",
        "c_return",
        "c_sendfile_enter",
        "openssl_free_enter",
        "openssl_new_return",
        "openssl_shutdown_enter",
    }
    assert (found.left_out, found.unprobed) == ((), ())


def test_a_plan_is_the_same_after_the_cache(stripped: Path) -> None:  # noqa: F811
    found = plan(stripped)
    size = stripped.stat().st_size
    assert result_cache.parse(result_cache.entry(found), str(stripped), size) == found


def test_each_function_that_has_the_internal_ones_errors_is_required() -> None:
    found = find(NODE)
    assert missing_functions(found) == ""
    groups = [
        [row for rows in group for row in rows] for group in plan_found_functions(found).required
    ]
    assert [(group[0].function, group[0].enter) for group in groups] == [
        ("ssl_read_internal in SSL_read", "c_read_plain_enter"),
        ("ssl_read_internal", "c_read_enter"),
        ("ssl_read_internal (2)", "c_read_enter"),
        ("ssl_write_internal in SSL_write", "c_write_plain_enter"),
        ("ssl_write_internal with flags", "c_write_flags_enter"),
        ("ssl_write_internal (2)", "c_write_enter"),
        ("ssl_write_internal with flags (3)", "c_write_flags_enter"),
    ]
    assert {tuple(row.at for row in group) for group in groups} == {(At.ENTRY, At.CALLS)}


def test_a_program_without_one_of_them_is_refused(
    program: Path,  # noqa: F811
    stripped: Path,  # noqa: F811
    tmp_path: Path,
) -> None:
    with Elf(str(program)) as elf:
        internal = elf.function("ssl_read_internal")
        assert internal is not None
        at = elf.offset(internal.address)
    data = bytearray(stripped.read_bytes())
    data[at : at + internal.size] = b"\x90" * (internal.size - 1) + b"\xc3"
    damaged = tmp_path / "damaged"
    damaged.write_bytes(data)
    with Elf(str(damaged)) as elf:
        assert "SSL_read" not in {
            each.name for each in find_openssl_functions(elf).functions if each.is_proved
        }
    found = plan(damaged)
    assert isinstance(found, Refusal)
    assert found.reason.startswith("OpenSSL")
    assert "SSL_read is not proved: its name is in the errors of 1 functions" in found.reason
