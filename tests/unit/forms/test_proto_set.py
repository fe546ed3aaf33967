"""FileDescriptorSets that are none, or not whole: told in one line, before anything is done."""

import contextlib
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sslsniff.core.errors import SchemaError
from sslsniff.forms.proto_set import ProtoSet
from tests.unit.protos import descriptor_set

pytestmark = pytest.mark.tools

ROOT = Path(__file__).parents[3]
SSLSNIFF = Path(sys.executable).with_name("sslsniff")
REMEDY = "make it with protoc --include_imports --descriptor_set_out=FILE"


def lacking() -> bytes:
    files = descriptor_set()
    files.file[0].dependency.append("google/protobuf/empty.proto")
    return files.SerializeToString()


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("content", "fact"),
    [
        (None, "cannot read {path} (No such file or directory)"),
        ("folder", "cannot read {path} (Is a directory)"),
        (b"", "{path} is no FileDescriptorSet"),
        (b"syntax = 'proto3';", "{path} is no FileDescriptorSet"),
        (lacking(), "{path} is not complete: "),
    ],
    ids=["missing", "a folder", "empty", "a .proto file", "without its imports"],
)
@pytest.mark.parametrize("before", [["read", "pcaps/http2-multiplexed.pcapng"], ["--uid", "0"]])
def test_what_is_wrong_is_told_in_a_line(
    tmp_path: Path, before: list[str], content: bytes | str | None, fact: str
) -> None:
    path = tmp_path / "set.bin"
    if content == "folder":
        path.mkdir()
    elif isinstance(content, bytes):
        path.write_bytes(content)
    done = subprocess.run(
        [SSLSNIFF, *before, "--proto-set", path, "-o", tmp_path / "out"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    [line] = done.stderr.splitlines()
    assert line.startswith(f"sslsniff: {fact.format(path=path)}")
    assert line.endswith(f": {REMEDY}")
    assert (done.returncode, done.stdout) == (1, "")
    assert not (tmp_path / "out").exists()


WHOLE = descriptor_set().SerializeToString()


@given(at=st.integers(0, len(WHOLE) - 1), byte=st.integers(0, 255), cut=st.booleans())
def test_damage_raises_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, at: int, byte: int, cut: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged"
    path.write_bytes(WHOLE[:at] + (b"" if cut else bytes([byte]) + WHOLE[at + 1 :]))
    with contextlib.suppress(SchemaError):
        ProtoSet(str(path))
