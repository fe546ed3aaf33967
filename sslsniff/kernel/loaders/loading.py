"""Chooses a loader, and loads in a thread while Python imports other modules."""

import threading
from collections.abc import Mapping
from pathlib import Path

from sslsniff.kernel import release
from sslsniff.kernel.loaders.loader import Loader

_BTF = Path("/sys/kernel/btf/vmlinux")


def has_cookies(kind: str) -> bool:
    """Say whether the programs of a loader of this ``kind`` get attach cookies."""
    return not _uses_bcc(kind) and release.has_attach_cookies()


def _uses_bcc(kind: str) -> bool:
    return kind == "bcc" or (kind == "auto" and not _BTF.exists())


def require_library(kind: str) -> None:
    """Raise ``LoaderError`` if the library of a loader of this ``kind`` is not installed."""
    if _uses_bcc(kind):
        from sslsniff.kernel.loaders.bcc_loader import import_bcc

        import_bcc()
    else:
        from sslsniff.kernel.loaders.libbpf import open_library

        open_library()


class Loading:
    """Loads the BPF programs in a thread: the 80 ms pass in libbpf and the kernel.

    ``kind``: ``auto``, ``co-re`` or ``bcc``.
    ``can_hold``: load the programs that hold threads, too.
    ``notes_waits``: see ``LibbpfLoader``.
    ``entries``: how many entries some of the maps have, by their names.

    The thread ends with the process, so an error elsewhere does not wait for it. bcc starts only in
    ``result``, because nothing is shown that is printed while it works.
    """

    def __init__(
        self,
        kind: str,
        ring_bytes: int,
        *,
        can_hold: bool = False,
        notes_waits: bool = False,
        entries: Mapping[str, int] = {},
    ) -> None:
        self._uses_bcc = _uses_bcc(kind)
        self._ring_bytes = ring_bytes
        self._can_hold = can_hold
        self._notes_waits = notes_waits
        self._entries = entries
        self._loader: Loader | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._load, daemon=True)
        if not self._uses_bcc:
            self._thread.start()

    def _load(self) -> None:
        try:
            self._loader = self._make()
        except BaseException as error:
            self._error = error

    def _make(self) -> Loader:
        if self._uses_bcc:
            from sslsniff.kernel.loaders.bcc_loader import BccLoader

            return BccLoader(self._ring_bytes, notes_waits=self._notes_waits, entries=self._entries)
        from sslsniff.kernel.loaders.libbpf import LibbpfLoader

        return LibbpfLoader(
            self._ring_bytes,
            can_hold=self._can_hold,
            notes_waits=self._notes_waits,
            entries=self._entries,
        )

    def result(self) -> Loader:
        """Wait for the loader; raises ``LoaderError``, ``KernelError`` or ``PrivilegeError``."""
        if self._uses_bcc:
            self._thread.start()
        self._thread.join()
        if self._loader is None:
            assert self._error is not None
            raise self._error
        return self._loader
