"""Choosing a loader, and letting it load while Python has other things to do."""

import threading
from pathlib import Path

from sslsniff.kernel.loader import Loader

_BTF = Path("/sys/kernel/btf/vmlinux")


class Loading:
    """A loader at work in a thread of its own: it spends its 80 ms in libbpf and the kernel.

    ``kind`` is ``auto``, ``co-re`` or ``bcc``. The thread ends with the process: an error
    elsewhere need not wait for it.
    """

    def __init__(self, kind: str, ring_bytes: int) -> None:
        self._loader: Loader | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._load, args=(kind, ring_bytes), daemon=True)
        self._thread.start()

    def _load(self, kind: str, ring_bytes: int) -> None:
        try:
            self._loader = _make_loader(kind, ring_bytes)
        except BaseException as error:
            self._error = error

    def result(self) -> Loader:
        """Wait for the loader; raises ``LoaderError``, ``KernelError`` or ``PrivilegeError``."""
        self._thread.join()
        if self._loader is None:
            assert self._error is not None
            raise self._error
        return self._loader


def _make_loader(kind: str, ring_bytes: int) -> Loader:
    if kind == "bcc" or (kind == "auto" and not _BTF.exists()):
        from sslsniff.kernel.bcc_loader import BccLoader

        return BccLoader(ring_bytes)
    from sslsniff.kernel.libbpf import LibbpfLoader

    return LibbpfLoader(ring_bytes)
