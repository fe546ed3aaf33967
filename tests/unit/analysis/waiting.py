"""Waiting for plans, with a bound for a busy machine."""

import time

from sslsniff.analysis.planning import Planning
from sslsniff.elf.elf_file import open_file
from sslsniff.matching.probe_set import Attachment, Refusal

PATIENCE_S = 60.0


def finish(planning: Planning, *paths: str) -> dict[str, Attachment | Refusal]:
    """Let files be planned, and wait for that; the order is that in which they are finished."""
    for path in paths:
        planning.add(path, open_file(path))
    return finish_one(planning, len(paths))


def finish_one(planning: Planning, count: int = 1) -> dict[str, Attachment | Refusal]:
    """Wait until so many are finished."""
    plans: dict[str, Attachment | Refusal] = {}
    deadline_s = time.monotonic() + PATIENCE_S
    while len(plans) < count:
        assert time.monotonic() < deadline_s
        planning.wait(1)
        for each in planning.finished():
            plans[each.path] = each.plan
            each.close()
    return plans
