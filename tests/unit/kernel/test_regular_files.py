"""What is no regular file is not opened, not even for a moment."""

import os
import socket
import stat
import threading
from pathlib import Path

import pytest

from sslsniff.kernel.regular_files import NotRegularError, open_regular


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"text")
    (tmp_path / "link").symlink_to(path)
    for each in (path, tmp_path / "link"):
        file = open_regular(str(each))
        assert os.pread(file, 10, 0) == b"text"
        assert not os.get_inheritable(file)
        os.close(file)
    with pytest.raises(FileNotFoundError):
        open_regular(str(tmp_path / "missing"))


def test_who_waits_at_a_fifo_goes_on_waiting(tmp_path: Path) -> None:
    """To open it would wake the writer, even if nothing is read."""
    path = tmp_path / "fifo"
    os.mkfifo(path)
    opened: list[int] = []
    writer = threading.Thread(target=lambda: opened.append(os.open(path, os.O_WRONLY)))
    writer.start()
    for _ in range(20):
        with pytest.raises(NotRegularError):
            open_regular(str(path))
        writer.join(0.01)
    assert not opened
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    writer.join()
    for each in (reader, *opened):
        os.close(each)


def test_a_device_a_socket_and_a_folder_are_refused(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        for path in (tmp_path / "socket", Path("/dev/zero"), tmp_path):
            assert not stat.S_ISREG(path.stat().st_mode)
            before = set(Path("/proc/self/fd").iterdir())
            with pytest.raises(NotRegularError, match="is not a file"):
                open_regular(str(path))
            assert set(Path("/proc/self/fd").iterdir()) == before
