"""Output files: private, new, and never somewhere else."""

import os
import socket
import stat
from pathlib import Path

import pytest

from sslsniff.core.errors import OutputError, PrivilegeError
from sslsniff.destinations.output_files import open_output


def write(path: Path | str, data: bytes, force: bool = False) -> None:
    with open_output(path, force=force) as file:
        file.write(data)


def test_new_file_is_private(tmp_path: Path) -> None:
    path = tmp_path / "out"
    old = os.umask(0)
    try:
        write(path, b"data")
    finally:
        os.umask(old)
    assert path.read_bytes() == b"data"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_file_knows_its_name_and_is_not_inherited(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with open_output(path) as file:
        assert file.name == str(path)
        assert not os.get_inheritable(file.fileno())


def test_existing_file_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"old")
    with pytest.raises(OutputError, match=r"exists already: .*--force"):
        open_output(path)
    assert path.read_bytes() == b"old"


def test_force_replaces_the_name_not_the_contents(tmp_path: Path) -> None:
    path, other = tmp_path / "out", tmp_path / "other"
    path.write_bytes(b"old")
    path.chmod(0o644)
    other.hardlink_to(path)
    write(path, b"new", force=True)
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert other.read_bytes() == b"old"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["other", "out"]


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("there", [False, True])
def test_symbolic_link_is_refused(tmp_path: Path, force: bool, there: bool) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    if there:
        target.write_bytes(b"precious")
    link.symlink_to(target)
    with pytest.raises(OutputError, match="is a symbolic link"):
        open_output(link, force=force)
    assert link.is_symlink()
    assert target.exists() == there


@pytest.mark.parametrize("force", [False, True])
def test_folders_devices_and_sockets_are_refused(tmp_path: Path, force: bool) -> None:
    with pytest.raises(OutputError, match="is a folder"):
        open_output(tmp_path, force=force)
    with pytest.raises(OutputError, match="not a regular file"):
        open_output("/dev/zero", force=force)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        with pytest.raises(OutputError, match="not a regular file"):
            open_output(tmp_path / "socket", force=force)


def test_the_null_device_is_written_to() -> None:
    """As ``-o /dev/null`` of other tools: what is written is dropped."""
    with open_output("/dev/null") as stream:
        stream.write(b"dropped")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"cannot create .*: No such file or directory"):
        open_output(tmp_path / "no" / "out")
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="Not a directory"):
        open_output(tmp_path / "file" / "out")


def test_pipe_is_written_to(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    write(path, b"data")
    assert os.read(reading, 100) == b"data"
    os.close(reading)


@pytest.mark.parametrize("name", ["-", "/dev/stdout"])
def test_standard_output(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    write(name, b"data")
    write(name, b" more")
    assert capfd.readouterr().out == "data more"


def test_file_belongs_to_who_called_sudo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Nobody but root can give files away; for others the variables say nothing.
    monkeypatch.setenv("SUDO_UID", "12345")
    monkeypatch.setenv("SUDO_GID", "23456")
    path = tmp_path / "out"
    write(path, b"")
    owner = (12345, 23456) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    assert (path.stat().st_uid, path.stat().st_gid) == owner


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("force", [False, True])
def test_no_file_is_left_where_its_owner_is_no_user(
    force: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUDO_UID", "-1")
    monkeypatch.setenv("SUDO_GID", "0")
    path = tmp_path / "out"
    if force:
        path.write_bytes(b"old")
    with pytest.raises(PrivilegeError, match="SUDO_UID is '-1', not an id"):
        open_output(path, force=force)
    assert [each.read_bytes() for each in tmp_path.iterdir()] == [b"old"] * force
