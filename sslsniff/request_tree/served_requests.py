"""Finds the request that a process served when it made one itself, by an id that both have.

It is known only if no other request with this id was open in the process at that time.
"""

from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import islice

from sslsniff.request_tree.tree_node import ProcessKey, TreeNode

_MOST_ALIKE = 64
"""Requests of a process with one id that are remembered; if there are more, it is no id."""
_MOST_PARTLY_SEEN = 256
"""If a process has more requests that may have ids, any may have it: looking at all takes long."""
_MOST_READ = 64
"""So many requests are looked at that a task read last; usually it serves one at a time."""


class Unknown(Enum):
    """Why the request is not known."""

    NO_ID = auto()
    """There is no id, or no request that was open has it."""
    SEVERAL = auto()
    """Several requests fit, or one may have this id, as not all of its header was seen."""


@dataclass(slots=True)
class _Alike:
    """Requests of a process with one id; ``others``: how many more there are."""

    nodes: list[TreeNode] = field(default_factory=list)
    others: int = 0


class ServedRequests:
    """Knows the requests that processes serve, or have served, by their ids."""

    def __init__(self) -> None:
        self._by_id: dict[tuple[ProcessKey, str], _Alike] = {}
        self._partly_seen: dict[ProcessKey, dict[int, TreeNode]] = {}
        self._by_task: dict[tuple[ProcessKey, int], dict[int, TreeNode]] = {}

    def add(self, node: TreeNode) -> None:
        """Add a request that a process serves."""
        for each in _values(node):
            alike = self._by_id.setdefault((node.process, each), _Alike())
            if len(alike.nodes) < _MOST_ALIKE:
                alike.nodes.append(node)
            else:
                alike.others += 1
        if node.may_have_more_ids:
            self._partly_seen.setdefault(node.process, {})[id(node)] = node
        if node.task.number:
            self._by_task.setdefault((node.process, node.task.number), {})[id(node)] = node

    def forget(self, node: TreeNode) -> None:
        """Forget a request."""
        if node.task.number:
            read = self._by_task[node.process, node.task.number]
            del read[id(node)]
            if not read:
                del self._by_task[node.process, node.task.number]
        for each in _values(node):
            key = node.process, each
            alike = self._by_id[key]
            if node in alike.nodes:
                alike.nodes.remove(node)
            else:
                alike.others -= 1
            if not alike.nodes and not alike.others:
                del self._by_id[key]
        if node.may_have_more_ids:
            partly_seen = self._partly_seen[node.process]
            del partly_seen[id(node)]
            if not partly_seen:
                del self._partly_seen[node.process]

    def served_by(self, node: TreeNode) -> tuple[TreeNode, str] | Unknown:
        """Return the request that ``node`` was made for, and the name of the id."""
        fitting: list[TreeNode] | None = None
        for each in node.ids:
            alike = self._by_id.get((node.process, each.value))
            if alike is None:
                continue
            if alike.others:
                return Unknown.SEVERAL
            found = [
                one
                for one in alike.nodes
                if one.was_open_at(node.started_ns)
                and one.parent_node is not node  # it asked itself
                and (fitting is None or one in fitting)
                and (each.name or _names(one, each.value))
            ]
            if len(found) == 1 and not self._may_be_another(node, found[0]):
                return found[0], each.name or _names(found[0], each.value)
            fitting = found or fitting
        return Unknown.NO_ID if fitting is None else Unknown.SEVERAL

    def read_by_task(self, node: TreeNode) -> TreeNode | None:
        """Return the open request that the goroutine or thread had read which made ``node``.

        None: there is none, there are several, or the thread may do other things meanwhile.
        """
        read = self._by_task.get((node.process, node.task.number), {})
        before = (each for each in reversed(read.values()) if each.started_ns <= node.started_ns)
        last = islice(before, _MOST_READ)
        found = [each for each in last if each.was_open_at(node.started_ns)]
        return found[0] if len(found) == 1 and found[0].task.serves_alone else None

    def _may_be_another(self, node: TreeNode, found: TreeNode) -> bool:
        """Say whether a request of which not all was seen may have the id, too."""
        partly_seen = self._partly_seen.get(node.process, {})
        return len(partly_seen) > _MOST_PARTLY_SEEN or any(
            each is not found and each.was_open_at(node.started_ns) for each in partly_seen.values()
        )


def _values(node: TreeNode) -> set[str]:
    return {each.value for each in node.ids}


def _names(node: TreeNode, value: str) -> str:
    """Return the name of a field of ``node`` with this id; empty if its name was not seen."""
    return next((each.name for each in node.ids if each.value == value and each.name), "")
