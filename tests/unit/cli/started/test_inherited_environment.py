"""The variable that Python sets in the C locale is given back as it was."""

from pathlib import Path

import pytest

from sslsniff.cli.started.inherited_environment import as_inherited

NOW = {"LC_CTYPE": "C.UTF-8", "A": "b"}


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        (b"A=b\0", {"A": "b"}),
        (b"A=b\0LC_CTYPE=C\0", {"A": "b", "LC_CTYPE": "C"}),
        (b"XLC_CTYPE=C\0LC_CTYPE=\0", {"A": "b", "LC_CTYPE": ""}),
        (b"LC_CTYPE=\xff\0", {"A": "b", "LC_CTYPE": "\udcff"}),
        (b"", {"A": "b"}),
    ],
)
def test_what_was_inherited(before: bytes, expected: dict[str, str], tmp_path: Path) -> None:
    inherited = tmp_path / "environ"
    inherited.write_bytes(before)
    assert as_inherited(NOW, inherited) == expected


def test_what_cannot_be_read(tmp_path: Path) -> None:
    assert as_inherited(NOW, tmp_path / "none") == NOW
