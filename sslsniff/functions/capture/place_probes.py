"""Probes at places of functions: what each fetches is written, then all are attached."""

import contextlib
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence

from sslsniff.capture.scope import Scope
from sslsniff.core.errors import TargetError
from sslsniff.fetching.fetch_tables import ProbedPlace
from sslsniff.fetching.trace_places import Place
from sslsniff.kernel import procfs, regular_files, release
from sslsniff.kernel.loaders.loader import Detach, Loader


def attach_places(
    loader: Loader, places: Sequence[Place], probed: Sequence[ProbedPlace]
) -> Iterator[Detach]:
    """Attach the probes by file and program, and yield how each group is detached.

    ``probed``: what is done at each of ``places``. Raises ``SslsniffError``.
    """
    groups = defaultdict[tuple[str, str, bool], list[int]](list)
    for index, place in enumerate(places):
        groups[place.path, probed[index].program, place.by_trampoline].append(index)
    for (path, program, by_trampoline), indexes in groups.items():
        with _opened(path) as file:
            yield loader.attach_uprobes(
                program,
                regular_files.descriptor_path(file),
                [places[index].offset for index in indexes],
                is_return=by_trampoline,
                cookies=indexes,
                semaphores=[places[index].semaphore or 0 for index in indexes],
            )


def can_wait(scope: Scope) -> bool:
    """Say whether the programs that wait for memory can be used: they choose by process only."""
    is_chosen_otherwise = scope.uids or scope.comms or scope.cgroups
    is_numbered_otherwise = procfs.pid_namespace() is not None
    return release.has_waiting_uprobes() and not (is_chosen_otherwise or is_numbered_otherwise)


@contextlib.contextmanager
def _opened(path: str) -> Iterator[int]:
    """Open a file: its probes are in it, whatever its name leads to later."""
    try:
        file = regular_files.open_regular(path)
    except OSError as error:
        raise TargetError(f"cannot open {path} ({error.strerror})", "check its name") from error
    try:
        yield file
    finally:
        os.close(file)
