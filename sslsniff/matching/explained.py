"""Says what was decided about a file, in lines for people."""

from collections.abc import Iterator

from sslsniff.matching.probe_set import Attachment, Refusal, Unprobed


def explained(result: Attachment | Refusal) -> Iterator[str]:
    """Yield which TLS libraries of a file are probed and which are not, and why."""
    if isinstance(result, Refusal):
        yield from map(_refused, result.unprobed)
        if not result.unprobed:
            yield _with(f"no probes: {result.reason}", result.remedy)
        return
    if result.debug_file is not None:
        yield f"its symbols are in {result.debug_file}"
    for part in result.parts:
        programs = ", ".join(sorted({each.program for each in part.probes}))
        found = f", found by {part.found_by}" if part.found_by else ""
        yield f"{part} is probed at {len(part.probes)} places{found}: {programs}"
        if part.key_log is not None and part.key_log.missing:
            yield f"{part}: no secrets: {part.key_log.missing}"
    yield from (f"left out: {each}" for each in result.left_out)
    yield from map(_refused, result.unprobed)


def _refused(library: Unprobed) -> str:
    return _with(f"{library} is not probed: {library.reason}", library.remedy)


def _with(fact: str, remedy: str) -> str:
    return f"{fact}; {remedy}" if remedy else fact
