"""Starts a command, which waits until the probes are placed."""

import errno
import os
import select
import signal
from collections.abc import Callable, Mapping
from typing import NoReturn

from sslsniff.cli.ending import CaptureControl
from sslsniff.cli.printing import note
from sslsniff.cli.started.inherited_environment import as_inherited
from sslsniff.cli.started.inherited_signals import IGNORED_BY_PYTHON, ignored_before
from sslsniff.core.errors import TargetError

_WAIT_MS = 50
_REMEDIES = {
    errno.EACCES: "check who may execute it",
    errno.ENOEXEC: "name its interpreter in its first line, such as #!/bin/sh",
}


class HeldCommand:
    """A child process that waits for ``release`` before it executes ``arguments``.

    It ends if this process ends before that. It has sslsniff's own standard input, output and
    error, and stays in its process group: Ctrl-C reaches it as if it had been started alone. So
    does what sslsniff's caller ignores, as nohup does: make it before signals are handled.
    ``environment``: its variables; by default those that this process inherited.
    """

    def __init__(
        self, arguments: tuple[str, ...], environment: Mapping[str, str] | None = None
    ) -> None:
        self._name = arguments[0]
        self._go_reader, self._go = os.pipe()
        self._failure, failure_writer = os.pipe()  # both are closed by a successful exec
        ignored = ignored_before()
        variables = as_inherited(os.environ if environment is None else environment)
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._go)
            _execute_when_released(arguments, variables, ignored, self._go_reader, failure_writer)
        os.close(self._go_reader)
        os.close(failure_writer)

    def release(self) -> None:
        """Let the child execute the command; raises ``TargetError`` if it cannot."""
        os.write(self._go, b"g")
        os.close(self._go)
        with os.fdopen(self._failure, "rb") as failure:
            reason = failure.read().decode()
        if reason:
            os.waitpid(self.pid, 0)
            remedy = _REMEDIES.get(int(reason), "check its name and PATH")
            raise TargetError(f"cannot start {self._name} ({os.strerror(int(reason))})", remedy)

    def wait(self, is_over: Callable[[], bool] = lambda: False) -> int | None:
        """Wait for the command's end; return its exit code as a shell shows it.

        None if ``is_over`` returns True before.
        """
        ended = select.poll()
        process = os.pidfd_open(self.pid)
        ended.register(process, select.POLLIN)
        try:
            while not ended.poll(_WAIT_MS):
                if is_over():
                    return None
        finally:
            os.close(process)
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return code if code >= 0 else 128 - code

    def finish(self, control: CaptureControl, *, is_whole: bool) -> int:
        """Wait for the command's end; return its exit code as a shell shows it.

        If a signal asked for the end and the command does not end in time, say that it continues.
        Then the code is that of a program that Ctrl-C ended; after another signal 0, or 1 if what
        was captured ``is_whole`` not in the outputs.
        """
        code = self.wait(control.is_left)
        if code is not None:
            return code
        note(f"process {self.pid} continues, and is not watched any more")
        return 128 + signal.SIGINT if control.signal == signal.SIGINT else int(not is_whole)


def _execute_when_released(
    arguments: tuple[str, ...],
    environment: Mapping[str, str],
    ignored: set[signal.Signals],
    go: int,
    failure: int,
) -> NoReturn:
    """Execute a command after a byte comes from the pipe ``go``; write an errno to ``failure``.

    ``ignored``: those of the signals that Python ignores that the command is to ignore.
    """
    for number in {*IGNORED_BY_PYTHON} - ignored:
        signal.signal(number, signal.SIG_DFL)
    if os.read(go, 1):
        try:
            os.execvpe(arguments[0], arguments, environment)
        except OSError as error:
            os.write(failure, str(error.errno or 0).encode())
    os._exit(127)
