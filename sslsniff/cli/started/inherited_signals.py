"""Tells which signals were ignored before Python ignored them itself.

Python ignores SIGPIPE and SIGXFSZ before any code of ours runs, and the kernel keeps no record of
what was before. The parent process shows it: a shell passes on what it ignores (POSIX, Shell
Command Language, section 2.12), and systemd ignores SIGPIPE for its units (systemd.exec(5)).
"""

import os
import signal
from pathlib import Path

IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
_SHELLS = {"bash", "busybox", "dash", "ksh93", "mksh", "sh", "zsh"}


def ignored_before() -> set[signal.Signals]:
    """Return those of ``IGNORED_BY_PYTHON`` that a shell or systemd passed on as ignored.

    Other programs usually reset both in their children; so none for any other parent.
    """
    if os.environ.get("SYSTEMD_EXEC_PID") == str(os.getpid()):
        return {signal.SIGPIPE}
    parent = Path(f"/proc/{os.getppid()}")
    try:
        if (parent / "exe").readlink().name not in _SHELLS:
            return set()
        status = (parent / "status").read_text()
    except OSError:  # of another user, or ended
        return set()
    ignored = int(status.partition("SigIgn:")[2].split()[0], 16)
    return {number for number in IGNORED_BY_PYTHON if ignored >> (number - 1) & 1}
