"""Which files are opened to be probed, and how."""

import contextlib
import os
from pathlib import Path

from sslsniff.probes import Planner


def test_a_fifo_is_not_waited_for(tmp_path: Path) -> None:
    """A process may put one in the place of a library that it has mapped."""
    path = tmp_path / "libssl.so.3"
    os.mkfifo(path)
    planner = Planner(None)
    with contextlib.ExitStack() as opened:
        assert planner.plan(str(path), opened) is None
    assert planner.refusal is not None
    assert planner.refusal.fact == f"{path} is not a file"


def test_a_file_is_looked_at_again_when_it_changed(tmp_path: Path) -> None:
    path = tmp_path / "program"
    path.write_bytes(b"of another form")
    planner = Planner(None)
    inode = path.stat().st_ino
    device = path.stat().st_dev

    def looked_at() -> bool:
        planner.refusal = None
        with contextlib.ExitStack() as opened:
            assert planner.plan(str(path), opened) is None
        assert planner.has_seen(device, inode, str(path))
        return planner.refusal is not None

    assert not planner.has_seen(device, inode, str(path))
    assert looked_at()
    assert not looked_at()
    changed_ns = path.stat().st_ctime_ns
    while path.stat().st_ctime_ns == changed_ns:  # it is that of the kernel's last tick
        path.write_bytes(b"of yet another")
    assert not planner.has_seen(device, inode, str(path))
    assert looked_at()
    path.unlink()
    assert planner.has_seen(device, inode, str(path))
