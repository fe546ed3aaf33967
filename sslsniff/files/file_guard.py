"""Keeps an output file complete if this process is killed: starts ``mending`` beside it."""

import os
import subprocess
import sys

from sslsniff.core.errors import OutputError
from sslsniff.files import mending


class FileGuard:
    """A process that completes the open regular file ``file`` when sslsniff is gone.

    ``kind`` is a key of ``mending.KINDS``. The process outlives this one by some milliseconds.
    Raises ``OutputError`` if it cannot be started.
    """

    def __init__(self, file: int, kind: str) -> None:
        self._position = os.memfd_create("position")
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
                    str(self._position),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(readable, self._position),
                start_new_session=True,  # Ctrl-C is for sslsniff only
            )
        except OSError as error:
            os.close(self._position)
            raise OutputError(
                f"cannot start the process that keeps an output file whole: {error.strerror}",
                "let more processes run (ulimit -u)",
            ) from error
        finally:
            os.close(readable)

    def note(self, position: int) -> None:
        """Note up to which position the file is whole."""
        os.pwrite(self._position, position.to_bytes(8, "little"), 0)

    def close(self) -> None:
        """End the process, which mends the file first, and wait for it."""
        self._process.communicate()
        os.close(self._position)


def _reopened(file: int) -> int:
    """Return ``file`` opened for reading as well: a shell's ``>`` opens it only for writing."""
    try:
        return os.open(f"/proc/self/fd/{file}", os.O_RDWR | os.O_CLOEXEC)
    except OSError:  # its mode does not permit to read it
        return os.dup(file)
