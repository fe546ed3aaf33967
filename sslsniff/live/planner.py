"""Decides which files to analyse for probes, and when to analyse one again."""

import os
from collections.abc import Iterator
from typing import NamedTuple

from sslsniff.errors import TargetError
from sslsniff.kernel.file_identity import Identity, identify
from sslsniff.kernel.regular_files import NotRegularError, descriptor_path, open_regular
from sslsniff.probing.attachments import Attachment, Refusal
from sslsniff.probing.planning.planning import Planning
from sslsniff.probing.probe_set import Unprobed

_UNSEEN = -1


class Planned(NamedTuple):
    """A file that is to be probed, and the descriptor by which it is open."""

    path: str
    file: int
    plan: Attachment


class Decided(NamedTuple):
    """The result for the file at ``path``; ``planned`` is None if it gets no probes."""

    path: str
    identity: Identity
    planned: Planned | None


class Planner:
    """Decides which probes a file gets. Each file is analysed once, until it changes.

    ``refusal`` is why the first of the refused files was; ``new_lines`` are about those with a TLS
    library, and are taken out by who reports them. So are ``unprobed``: of each file its identity,
    its path, and the libraries in it that have no probes, perhaps none.
    ``left_out`` counts files that were not looked at, as too many waited.
    """

    def __init__(self, planning: Planning) -> None:
        self.refusal: TargetError | None = None
        self.new_lines: list[str] = []
        self.unprobed: list[tuple[Identity, str, tuple[Unprobed, ...]]] = []
        self.left_out = 0
        self._planning = planning
        self._waiting: dict[tuple[int, int], Identity] = {}
        """Device and inode, as fstat says them -> the file: few, and all of them are open."""
        self._seen: dict[Identity, int | None] = {}
        """A file -> its time of change; None: it has probes, which hold its inode in the kernel."""

    def has_seen(self, device: int, inode: int, path: str) -> bool:
        """Say whether this very file was analysed, as it is now.

        ``path`` is where it is now; it does not matter if it is gone.
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

    def add(self, path: str) -> bool:
        """Have the file at ``path`` analysed, unless the result is known.

        It stays open meanwhile, and is named by its descriptor: a container could put another one
        in its place between two looks at its path. Returns whether it ``is_waiting`` then.
        """
        try:
            file = open_regular(path)
        except NotRegularError as error:
            self._refuse(path, Refusal(f"{path} {error.strerror}"))
            return False
        except OSError:  # its process is gone
            return False
        identity, status = identify(descriptor_path(file))
        is_full = self._planning.is_full
        if is_full or self._knows(identity, status):
            self.left_out += is_full
            os.close(file)
            return False
        self._seen[identity] = status.st_ctime_ns
        self._waiting[status.st_dev, status.st_ino] = identity
        self._planning.add(path, file)
        return True

    def waits_for(self, path: str) -> Identity | None:
        """Return what identifies the file at ``path`` if ``decided`` will come to it."""
        if not self._waiting:
            return None
        try:
            identity, _ = identify(path)
        except OSError:  # its process is gone
            return None
        return identity if identity in self._waiting.values() else None

    def decided(self) -> Iterator[Decided]:
        """Yield the files whose results have come.

        What is planned is open until the next is asked for. Of the others there is ``refusal`` or
        a line in ``new_lines``, if anything.
        """
        for each in self._planning.finished():
            identity = self._waiting.pop((each.status.st_dev, each.status.st_ino))
            decided = Decided(each.path, identity, None)
            self.unprobed.append((identity, each.path, each.plan.unprobed))
            if isinstance(each.plan, Refusal):
                self._refuse(each.path, each.plan)
            elif each.file is not None:
                decided = decided._replace(planned=Planned(each.path, each.file, each.plan))
            try:
                yield decided
            finally:
                each.close()

    def mark_probed(self, planned: Planned) -> None:
        """Note that a file has its probes: its inode is that file's until they are gone.

        One that the kernel refused is not tried again until it changes: each process that maps it
        would have the same reported again.
        """
        identity, _ = identify(descriptor_path(planned.file))
        self._seen[identity] = None

    def _refuse(self, path: str, refusal: Refusal) -> None:
        reason = refusal.reason
        remedy = refusal.remedy or "name a TLS library (sslsniff list shows those in use)"
        fact = reason if path in reason else f"nothing to probe in {path}, {reason}"
        self.refusal = self.refusal or TargetError(fact, remedy)
        if refusal.is_tls and not refusal.unprobed:
            also = f": {refusal.remedy}" if refusal.remedy else ""
            self.new_lines.append(f"{path} is not probed, {reason}{also}")
