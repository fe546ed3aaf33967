"""Opens output files: plaintext of TLS traffic is for its owner's eyes only.

A new file is created with mode 0600, and never through a symbolic link as the last part of its
path. Nothing that exists is overwritten unless asked; then a new file gets its name, so that other
links to the old one keep the old contents. Under sudo the file belongs to the user who called it.
"""

import contextlib
import errno
import io
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from sslsniff.core.errors import OutputError
from sslsniff.kernel import privileges

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_BUFFER_BYTES = 64 << 10
STANDARD_OUTPUT = ("-", "/dev/stdout")


def check_output(path: str | os.PathLike[str], force: bool = False) -> None:
    """Raise the ``OutputError`` that ``open_output`` would, as far as it is known before.

    Nothing is created: a capture that cannot start leaves no file.
    """
    name = os.fspath(path)
    if name in STANDARD_OUTPUT:
        return
    try:
        found = os.lstat(name)
    except FileNotFoundError:
        folder = Path(name).parent
        if not os.access(folder, os.W_OK | os.X_OK):
            reason = errno.EACCES if folder.exists() else errno.ENOENT
            raise _cannot_create(name, reason) from None
    except OSError as error:
        raise _cannot_create(name, error.errno) from error
    else:
        if not (stat.S_ISFIFO(found.st_mode) or _is_null(found)):
            _refuse(name, found.st_mode, force)


def open_output(path: str | os.PathLike[str], force: bool = False) -> BinaryIO:
    """Open ``path`` for writing; ``-`` and ``/dev/stdout`` are standard output.

    What exists already is refused, but a named pipe of the user's own is written to, and so is
    /dev/null. With ``force`` a regular file is replaced. Directories, other devices, sockets,
    symbolic links and named pipes of others are always refused. Raises ``OutputError`` and
    ``PrivilegeError``.
    """
    name = os.fspath(path)
    try:
        if name in STANDARD_OUTPUT:
            return _file(os.dup(1), "standard output")
        try:
            found = os.lstat(name)
        except FileNotFoundError:
            return _file(_create(name), name)
        if stat.S_ISFIFO(found.st_mode):
            return _file(_open_pipe(name), name)
        if _is_null(found):
            return _file(os.open(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC), name)
        _refuse(name, found.st_mode, force)
        return _file(_replace(name), name)
    except FileExistsError as error:
        raise OutputError(f"{name} appeared while it was created", "try again") from error
    except OSError as error:
        raise _cannot_create(name, error.errno) from error


def _is_null(found: os.stat_result) -> bool:
    """Return whether a file is /dev/null, by whatever name."""
    return stat.S_ISCHR(found.st_mode) and found.st_rdev == Path(os.devnull).stat().st_rdev


def check_folder(path: Path) -> None:
    """Raise the ``OutputError`` that ``create_folder`` would, as far as it is known before."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise _cannot_create(str(path), error.errno) from error
    if not stat.S_ISDIR(found.st_mode):
        raise OutputError(f"{path} is not a folder", "name a new one")
    if found.st_uid not in _trusted_users():
        raise OutputError(f"{path} is a folder of another user", "name a new one")


def create_folder(path: Path) -> None:
    """Create a folder, and those above it that are missing, for its owner's eyes only.

    One that is a symbolic link or of another user is refused. Raises ``OutputError`` and
    ``PrivilegeError``.
    """
    owner = privileges.caller()
    try:
        for each in reversed((path, *path.parents)):
            if not each.exists():
                each.mkdir(0o700)
                if owner is not None:
                    with contextlib.suppress(OSError):  # some file systems have no owners to give
                        os.chown(each, *owner)
    except OSError as error:
        raise _cannot_create(str(path), error.errno) from error
    check_folder(path)


def _trusted_users() -> set[int]:
    caller = privileges.caller()
    return {0, os.geteuid(), *([caller[0]] if caller else [])}


def _cannot_create(name: str, number: int | None) -> OutputError:
    return OutputError(
        f"cannot create {name}: {os.strerror(number or 0)}",
        "name a file in a folder you can write to",
    )


def _refuse(name: str, mode: int, force: bool) -> None:
    if stat.S_ISLNK(mode):
        raise OutputError(f"{name} is a symbolic link", "name the file that it points to")
    if stat.S_ISDIR(mode):
        raise OutputError(f"{name} is a folder", "name a file in it")
    if not stat.S_ISREG(mode):
        raise OutputError(f"{name} is not a regular file", "name a new file, a pipe, or -")
    if not force:
        raise OutputError(f"{name} exists already", "name another file, or overwrite with --force")


def _file(fd: int, name: str) -> BinaryIO:
    raw = io.FileIO(fd, "wb")
    raw.name = name
    return io.BufferedWriter(raw)


def _create(name: str) -> int:
    owner = privileges.caller()
    fd = os.open(name, _NEW, 0o600)
    if owner is not None:
        with contextlib.suppress(OSError):  # some file systems have no owners to give
            os.fchown(fd, *owner)
    return fd


def _replace(name: str) -> int:
    """Create a file beside ``name`` and give it that name, in one step."""
    path = Path(name)
    beside = path.with_name(f".{path.name[:200]}.{os.urandom(4).hex()}")
    fd = _create(str(beside))
    try:
        beside.replace(path)
    except OSError:
        os.close(fd)
        beside.unlink()
        raise
    return fd


def _open_pipe(name: str) -> int:
    """Open a named pipe that only the user, their sudo identity or root can have put there."""
    trusted = _trusted_users()
    fd = os.open(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    found = os.fstat(fd)
    if stat.S_ISFIFO(found.st_mode) and found.st_uid in trusted:
        return fd
    os.close(fd)
    raise OutputError(f"{name} is a pipe of another user", "make your own with mkfifo")


class LineFile(io.RawIOBase):
    """Writes lines of text to the open file ``fd``, which the caller closes.

    If it cannot be written any more, ``OutputError`` is raised once, and the rest is dropped; a
    file that is sslsniff's ``own`` is cut back to its last whole line. When nobody reads a pipe any
    more, ``reader_gone`` is called instead: other outputs should get the remaining data.
    """

    def __init__(self, fd: int, name: str, reader_gone: Callable[[], None], *, own: bool) -> None:
        super().__init__()
        self._fd = fd
        self.name = name
        self._reader_gone = reader_gone
        self._own = own
        self._written_bytes = 0
        self._whole_bytes = 0
        self._failed = False

    def writable(self) -> bool:
        """See ``io.IOBase``."""
        return True

    def fileno(self) -> int:
        """See ``io.IOBase``."""
        return self._fd

    def isatty(self) -> bool:
        """See ``io.IOBase``."""
        return os.isatty(self._fd)

    def write(self, data: Any, /) -> int:
        """See ``io.RawIOBase``."""
        view = memoryview(data)
        if self._failed:
            return view.nbytes
        try:
            size = os.write(self._fd, view)
        except BrokenPipeError:
            return self.stop_writing(data)
        except OSError as error:
            self._failed = True
            with contextlib.suppress(OSError):
                if self._own and self._written_bytes > self._whole_bytes:
                    os.ftruncate(self._fd, self._whole_bytes)
            raise OutputError(
                f"cannot write {self.name}: {error.strerror}", "make room or name a file elsewhere"
            ) from error
        newline = bytes(view[:size]).rfind(b"\n")
        if newline >= 0:
            self._whole_bytes = self._written_bytes + newline + 1
        self._written_bytes += size
        return size

    def stop_writing(self, data: Any) -> int:
        """Drop ``data`` and all that comes later, as nobody reads it any more; see ``write``."""
        if not self._failed:
            self._failed = True
            self._reader_gone()
        return memoryview(data).nbytes


def no_standard_output() -> OutputError:
    """Return the error for a standard output that is closed."""
    return OutputError("there is no standard output", "leave it open (>/dev/null for nothing)")


def require_standard_output() -> None:
    """Raise ``OutputError`` if standard output is closed."""
    if sys.stdout is None:
        raise no_standard_output()


def open_standard(
    standard: TextIO | None,
    closing: contextlib.ExitStack,
    reader_gone: Callable[[], None] = lambda: None,
) -> TextIO:
    """Return a stream to ``sys.stdout`` or ``sys.stderr`` that fails as other outputs do.

    ``closing`` flushes it. Raises ``OutputError`` if it was closed before sslsniff started.
    """
    if standard is None:
        raise no_standard_output()
    name = standard.name.strip("<>")
    lines = LineFile(standard.fileno(), name, reader_gone, own=False)
    return open_text(lines, standard.encoding, closing)


def open_text(lines: LineFile, encoding: str, closing: contextlib.ExitStack) -> TextIO:
    """Return a stream of text to ``lines``; ``closing`` flushes it."""
    buffer = io.BufferedWriter(lines, _BUFFER_BYTES)
    return closing.enter_context(
        io.TextIOWrapper(buffer, encoding=encoding, errors="backslashreplace", newline="\n")
    )
