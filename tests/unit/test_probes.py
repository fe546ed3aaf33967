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
