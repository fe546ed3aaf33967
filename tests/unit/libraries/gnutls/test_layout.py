"""The layout of GnuTLS's session; tests/live/test_gnutls_ways.py compares it with real ones."""

from pathlib import Path

import pytest

from sslsniff.elf.elf_file import Elf
from sslsniff.libraries.gnutls.layout import read_gnutls_layout
from sslsniff.matching.object_layout import ObjectLayout
from tests import libraries
from tests.unit.analysis.test_attachments import compiled

# The checks as GnuTLS has them, of a role at 16; a wrong one of another field.
CODE = """
struct version {{ long unused; int id; }};
struct session {{ long unused[2]; int role, other; struct version *version; char done; }};
long fail(struct session *);
long gnutls_record_send_early_data(struct session *session) {{ return session->role == 2 ? 7 : 9; }}
long gnutls_record_recv_early_data(struct session *session) {{ return session->{} == 1 ? 7 : 9; }}
long gnutls_record_send2(struct session *session) {{ return session->done ? 7 : fail(session); }}
long gnutls_record_recv(struct session *session) {{ return session->done ? 8 : fail(session); }}
int gnutls_protocol_get_version(struct session *session)
{{
    return session->version ? session->version->id : 255;
}}
"""


def layout_of(path: Path) -> ObjectLayout:
    with Elf(str(path)) as elf:
        return read_gnutls_layout(elf)


@pytest.mark.tools
@pytest.mark.parametrize("series", libraries.GNUTLS)
def test_role_and_version_are_known(series: str) -> None:
    layout = layout_of(libraries.library(series).path)
    assert layout.server_value == 1
    known = {name for name, value in layout._asdict().items() if value is not None}
    assert known == {
        *("server", "server_value", "version_base", "version", "settled"),
        *("verified", "random", "alert"),
    }


@pytest.mark.tools
def test_offsets_are_those_of_the_code(tmp_path: Path) -> None:
    expected = ObjectLayout(server=16, server_value=1, version_base=24, version=8, settled=32)
    assert layout_of(compiled(tmp_path, CODE.format("role"))) == expected


@pytest.mark.tools
def test_a_role_that_is_not_proved_is_unknown(tmp_path: Path) -> None:
    expected = ObjectLayout(version_base=24, version=8, settled=32)
    assert layout_of(compiled(tmp_path, CODE.format("other"))) == expected


@pytest.mark.tools
def test_a_file_without_the_functions_has_no_layout() -> None:
    assert layout_of(libraries.library("3.0").path) == ObjectLayout()
