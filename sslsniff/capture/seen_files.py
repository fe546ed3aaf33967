"""Decides which files to analyse for probes, and when to analyse one again."""

import os
from collections.abc import Iterator

from sslsniff.analysis.file_analyzer import AnalysedFile, FileAnalyzer
from sslsniff.core.debug_log import DebugLog
from sslsniff.core.errors import TargetError
from sslsniff.kernel.file_identity import Identity, identify
from sslsniff.kernel.regular_files import NotRegularError, descriptor_path, open_regular
from sslsniff.matching.probe_set import Refusal, Unprobed

_UNSEEN = -1
_log = DebugLog("files")


class SeenFiles:
    """Knows which files were analysed: each is once, until it changes."""

    def __init__(self, analyzer: FileAnalyzer) -> None:
        self.refusal: TargetError | None = None
        """Why the first refused file was refused."""
        self.new_lines: list[str] = []
        """Lines about files with a TLS library that is not probed; the reader removes them."""
        self.unprobed: list[tuple[Identity, str, tuple[Unprobed, ...]]] = []
        """The identity, the path and the unprobed libraries of each file; the reader removes it."""
        self.left_out = 0
        """How many files were not analysed, because too many waited."""
        self._analyzer = analyzer
        self._waiting: dict[tuple[int, int], Identity] = {}
        """Device and inode of fstat(2) -> the file: few, and all of them are open."""
        self._seen: dict[Identity, int | None] = {}
        """ctime when a file was analysed; None while it is probed: our open file pins the inode."""

    def has_seen(self, device: int, inode: int, path: str) -> bool:
        """Say whether the file at ``path`` was analysed and did not change since.

        ``device`` and ``inode`` are those of its mapping. If ``path`` is gone, the result is True:
        there is nothing to analyse.
        """
        changed_ns = self._seen.get((device, inode), _UNSEEN)
        if changed_ns in (None, _UNSEEN):
            return changed_ns is None
        try:
            return self._knows(*identify(path))
        except OSError:  # its process is gone
            return True

    def _knows(self, identity: Identity, status: os.stat_result) -> bool:
        return self._seen.get(identity, _UNSEEN) in (None, status.st_ctime_ns)

    def add(self, path: str) -> Identity | None:
        """Start to analyse the file at ``path``; return its identity.

        None: that was done before, or cannot be. Raises ``FileNotFoundError``: nothing is there any
        more. The file stays open until its result, and is identified by its descriptor: a container
        could replace the file at ``path`` meanwhile.
        """
        try:
            file = open_regular(path)
        except NotRegularError as error:
            _log("%s: not analysed: it %s", path, error.strerror)
            self._refuse(path, Refusal(f"{path} {error.strerror}"))
            return None
        except OSError as error:
            _log("%s: not analysed: %s", path, error.strerror)
            if isinstance(error, FileNotFoundError):
                raise
            return None
        identity, status = identify(descriptor_path(file))
        is_full = self._analyzer.is_full
        if is_full or self._knows(identity, status):
            self.left_out += is_full
            _log("%s: %s", path, "too many files wait" if is_full else "analysed before")
            os.close(file)
            return None
        self._seen[identity] = status.st_ctime_ns
        self._waiting[status.st_dev, status.st_ino] = identity
        self._analyzer.add(path, file)
        return identity

    def waits_for(self, path: str) -> Identity | None:
        """Return the identity of the file at ``path``; None: no result of it is to come."""
        if not self._waiting:
            return None
        try:
            identity, _ = identify(path)
        except OSError:  # its process is gone
            return None
        return identity if identity in self._waiting.values() else None

    def results(self) -> Iterator[tuple[Identity, AnalysedFile]]:
        """Yield the files whose results have come.

        A file is closed when the next one is yielded. The reason for one without probes is in
        ``refusal`` or ``new_lines``.
        """
        for analysed in self._analyzer.results():
            status, result = analysed.status, analysed.result
            identity = self._waiting.pop((status.st_dev, status.st_ino))
            self.unprobed.append((identity, analysed.path, result.unprobed))
            if isinstance(result, Refusal):
                self._refuse(analysed.path, result)
            try:
                yield identity, analysed
            finally:
                analysed.close()

    def mark_probed(self, file: int) -> Identity:
        """Note that an open file has its probes: until they are detached its inode stays its own.

        Returns the file's identity.

        A file whose probes the kernel refused is tried again only after a change: else each process
        that maps it would cause the same report.
        """
        identity, _ = identify(descriptor_path(file))
        self._seen[identity] = None
        return identity

    def _refuse(self, path: str, refusal: Refusal) -> None:
        reason = refusal.reason
        remedy = refusal.remedy or "name a TLS library (sslsniff list shows those in use)"
        fact = reason if path in reason else f"nothing to probe in {path}, {reason}"
        self.refusal = self.refusal or TargetError(fact, remedy)
        if refusal.is_tls and not refusal.unprobed:
            also = f": {refusal.remedy}" if refusal.remedy else ""
            self.new_lines.append(f"{path} is not probed, {reason}{also}")
