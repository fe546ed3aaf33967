"""Keeps an output file complete if this process is killed: starts ``mending`` beside it."""

import os
import subprocess
import sys

from sslsniff.capture_files import mending
from sslsniff.errors import OutputError


class FileGuard:
    """A process that mends the open regular file ``file``, of a kind in ``mending.KINDS``.

    It outlives this one by some milliseconds. Raises ``OutputError`` where none can be started.
    """

    def __init__(self, file: int, kind: str) -> None:
        self._place = os.memfd_create("place")
        readable = _reopened(file)
        try:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-I",
                    "-S",
                    mending.__file__,
                    kind,
                    str(readable),
                    str(self._place),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(readable, self._place),
                start_new_session=True,  # Ctrl-C is for sslsniff only
            )
        except OSError as error:
            os.close(self._place)
            raise OutputError(
                f"cannot start the process that keeps an output file whole: {error.strerror}",
                "let more processes run (ulimit -u)",
            ) from error
        finally:
            os.close(readable)

    def note(self, at: int) -> None:
        """Note up to which position the file is whole."""
        os.pwrite(self._place, at.to_bytes(8, "little"), 0)

    def close(self) -> None:
        """Let the process mend what there is, and wait for its end."""
        self._process.communicate()
        os.close(self._place)


def _reopened(file: int) -> int:
    """Return the file opened for reading, too: the shell's ``>`` opens it for writing alone."""
    try:
        return os.open(f"/proc/self/fd/{file}", os.O_RDWR | os.O_CLOEXEC)
    except OSError:  # written only, by its mode
        return os.dup(file)
