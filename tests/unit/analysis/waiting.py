"""Waiting for plans, with a bound for a busy machine."""

import time

from sslsniff.analysis.file_analyzer import FileAnalyzer
from sslsniff.elf.elf_file import open_file
from sslsniff.matching.probe_set import Attachment, Refusal

PATIENCE_S = 60.0


def finish(analyzer: FileAnalyzer, *paths: str) -> dict[str, Attachment | Refusal]:
    """Let files be planned, and wait for that; the order is that in which they are finished."""
    for path in paths:
        analyzer.add(path, open_file(path))
    return finish_one(analyzer, len(paths))


def finish_one(analyzer: FileAnalyzer, count: int = 1) -> dict[str, Attachment | Refusal]:
    """Wait until so many are finished."""
    plans: dict[str, Attachment | Refusal] = {}
    deadline_s = time.monotonic() + PATIENCE_S
    while len(plans) < count:
        assert time.monotonic() < deadline_s
        analyzer.wait(1)
        for each in analyzer.results():
            plans[each.path] = each.result
            each.close()
    return plans
