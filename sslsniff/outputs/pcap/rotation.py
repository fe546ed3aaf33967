"""The files of a capture that goes on in another one when a file is full: --pcap-size.

They are called as dumpcap and tcpdump number theirs, with the number before the ending:
``out_00001.pcapng``, ``out_00002.pcapng``. Each is a whole capture that can be read alone.
"""

import contextlib
import re
from collections import deque
from pathlib import Path
from typing import BinaryIO

from sslsniff.core.errors import OutputError
from sslsniff.destinations.output_files import check_output, open_output

_ENDINGS = (".pcap", ".pcapng")


def _around_number(path: Path) -> tuple[str, str]:
    """Return what stands before and after the number in the names of a series."""
    is_usual = path.suffix in _ENDINGS
    return f"{path.stem if is_usual else path.name}_", path.suffix if is_usual else ""


def check_series(path: Path, *, force: bool) -> None:
    """Raise the ``OutputError`` that a file of the series would, as far as it is known before.

    Files of an earlier run count: without ``force`` the capture would end where it meets one.
    """
    before, after = _around_number(path)
    check_output(path.with_name(f"{before}00001{after}"), force)
    if force:
        return
    pattern = re.compile(re.escape(before) + "[0-9]{5,}" + re.escape(after))
    with contextlib.suppress(OSError):  # a folder that can be written to, but not read
        for each in sorted(path.parent.iterdir()):
            if pattern.fullmatch(each.name):
                raise OutputError(
                    f"{each} exists already", "name another file, or overwrite with --force"
                )


class Rotation:
    """A ``pcap.FileSeries`` of files next to ``path``; ``next`` begins with the first.

    No file exceeds ``size_bytes``. Only the newest ``kept`` stay, None: all do. Older ones of this
    series are removed before the next is made, so all of them together never exceed ``kept`` times
    ``size_bytes``; files that another run made are left alone.
    """

    def __init__(self, path: Path, size_bytes: int, kept: int | None, *, force: bool) -> None:
        self.size_bytes = size_bytes
        self._path = path
        self._kept = kept
        self._force = force
        self._count = 0
        self._paths: deque[Path] = deque()
        self._file: BinaryIO | None = None

    def next(self) -> BinaryIO:
        """See ``pcap.FileSeries``."""
        self.close()
        if self._kept is not None and len(self._paths) == self._kept:
            self._remove(self._paths.popleft())
        self._count += 1
        before, after = _around_number(self._path)
        path = self._path.with_name(f"{before}{self._count:05}{after}")
        self._file = open_output(path, force=self._force)
        self._paths.append(path)
        return self._file

    def close(self) -> None:
        """Close the present file."""
        if self._file is not None:
            self._file.close()

    def _remove(self, path: Path) -> None:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise OutputError(
                f"cannot remove {path}: {error.strerror}",
                "without that the files would exceed --pcap-files: name a file elsewhere",
            ) from error
