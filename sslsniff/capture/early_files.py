"""Finds and analyses the files that a capture probes first, while the BPF programs are loaded."""

import contextlib

from sslsniff.analysis.analysis_process import AnalysisProcess
from sslsniff.analysis.file_analyzer import FileAnalyzer
from sslsniff.capture.scope import Scope
from sslsniff.capture.seen_files import SeenFiles
from sslsniff.capture.survey import Unreachable, candidate_files
from sslsniff.core.errors import SslsniffError
from sslsniff.kernel import resource_limits
from sslsniff.kernel.mapping_events import Mappings
from sslsniff.matching.probe_set import ReturnStyle

_WAIT_S = 0.1


class EarlyFiles:
    """Finds and analyses the files that a capture of ``scope`` probes first.

    ``style``: how returns are seen.
    ``key_log``: whether to find where secrets can be seen, too.
    ``process``: the process whose workers analyse; by default a new one.
    ``of_one_kind``: probe only one kind of the installed libraries that no process uses yet.
    ``unreachable``: the files that cannot be opened.

    ``find`` sets the three attributes below, which are valid until ``close``.
    """

    analyzer: FileAnalyzer
    seen: SeenFiles
    mappings: Mappings
    """Reports the files that processes map from then on."""

    def __init__(
        self,
        scope: Scope,
        style: ReturnStyle = ReturnStyle.INSTRUCTIONS,
        process: AnalysisProcess | None = None,
        *,
        of_one_kind: bool = False,
        key_log: bool = False,
    ) -> None:
        self.scope = scope
        self.unreachable: list[Unreachable] = []
        self._style = style
        self._process = process
        self._of_one_kind = of_one_kind
        self._key_log = key_log
        self._error: SslsniffError | None = None
        self._has_searched = False
        self._closing = contextlib.ExitStack()

    def find(self) -> None:
        """Find the files and start to analyse them, once. ``require`` raises the errors."""
        if self._has_searched:
            return
        self._has_searched = True
        resource_limits.allow_open_files()
        try:
            analyzer = FileAnalyzer(self._style, self._process, key_log=self._key_log)
            self.analyzer = self._closing.enter_context(analyzer)
            self.seen = SeenFiles(self.analyzer)
            # First, so that a file that is mapped during the search is not missed.
            self.mappings = Mappings()
            self._closing.callback(self.mappings.close)
            files = candidate_files(self.scope, self.unreachable, of_one_kind=self._of_one_kind)
            for path in files:
                while self.analyzer.is_full:
                    self.analyzer.wait(_WAIT_S)
                    self.analyzer.collect()
                with contextlib.suppress(FileNotFoundError):  # its process is gone
                    self.seen.add(path)
        except SslsniffError as error:
            self._error = error

    def require(self) -> None:
        """Raise the error of ``find``, if there was one: ``TargetError`` or ``KernelError``."""
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """End the analysis, and the reports of mapped files. Safe to call again."""
        self._closing.close()
