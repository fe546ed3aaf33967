"""An exchange as the tree of requests knows it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from sslsniff.core.model import Address, Connection, Exchange
from sslsniff.core.tree_place import TreePlace
from sslsniff.decoders.messages import Headers, Side, cached_in_headers
from sslsniff.request_tree.request_ids import RequestId
from sslsniff.request_tree.task_notes import UNKNOWN_TASK, Task

ProcessKey = tuple[str | None, int]
"""The machine, None if it is this one, and the number of the process."""

Addresses = tuple[Address, Address]
"""Those of the client and of the server."""

FOREVER_NS = 1 << 63


@dataclass(slots=True, eq=False)
class TreeNode(TreePlace):
    """An exchange and its relatives, as long as others may belong to it.

    ``exchange``: None once it was shown. ``number``: the running number on its connection.
    ``stream``: of HTTP/2. ``ended_ns``: ``FOREVER_NS`` while it is open.
    ``first_byte_ns``: when the response began. ``task``: the goroutine or thread that passed the
    first bytes.
    ``digest``: equal where the request is the same; None: not all of it is known.
    ``parent_node``, ``children``, ``served``: its relatives; ``served`` is the other end's view.
    """

    exchange: Exchange | None = None
    process: ProcessKey = (None, 0)
    role: Side | None = None
    end: "ConnectionEnd | None" = None
    number: int = 0
    stream: int | None = None
    started_ns: int = 0
    ended_ns: int = FOREVER_NS
    first_byte_ns: int | None = None
    task: Task = UNKNOWN_TASK
    ids: Sequence[RequestId] = ()
    may_have_more_ids: bool = False
    digest: int | None = None
    parent_node: "TreeNode | None" = None
    children: "list[TreeNode] | None" = None
    served: "TreeNode | None" = None
    is_joined: bool = False
    is_shown: bool = False
    held_bytes: int = 0

    def add_child(self, node: "TreeNode") -> None:
        """Add an exchange that belongs to this one."""
        if self.children is None:
            self.children = []
        self.children.append(node)

    def waiting_children(self) -> "Iterator[TreeNode]":
        """Yield what belongs to it and was not shown."""
        for each in self.children or ():
            if not each.is_shown:
                yield each

    @property
    def may_have_parts(self) -> bool:
        """Whether another exchange may be joined to it, now or later.

        That is the other end's view of what a client saw, or what a process asks with the id or
        by the task of a request.
        """
        if self.role is not Side.SERVER:
            return True
        return bool(self.ids or self.may_have_more_ids or self.task.number)

    @property
    def key(self) -> int:
        """What distinguishes it on its connection."""
        return self.number if self.stream is None else self.stream

    @property
    def is_open(self) -> bool:
        """Whether the exchange has not ended."""
        return self.ended_ns == FOREVER_NS

    @property
    def response_ns(self) -> int | None:
        """When the response began; None if it has not."""
        return self.exchange.first_byte_ns if self.exchange is not None else self.first_byte_ns

    def was_open_at(self, time_ns: int) -> bool:
        """Say whether the exchange had begun, and not ended."""
        return self.started_ns <= time_ns <= self.ended_ns

    def is_below(self, other: "TreeNode") -> bool:
        """Say whether ``other`` is this one, or above it; also said where too many are above."""
        each: TreeNode | None = self
        for _ in range(_MOST_ABOVE):
            if each is None or each is other:
                return each is not None
            each = each.parent_node
        return True


_MOST_ABOVE = 64


def digest_of(exchange: Exchange) -> int | None:
    """Return a number that is equal at both ends of a connection; None: not all is known."""
    request, statement = exchange.request, exchange.statement
    if statement is not None:
        parameters = [
            tuple(each) if isinstance(each, list) else each for each in statement.parameters or ()
        ]
        return hash((statement.system, statement.text, *parameters))
    if request is None or request.method is None or request.target is None:
        return None
    fields = _fields_digest(request.headers)
    if fields is None:
        return None
    return hash((request.method, request.target, request.authority, fields))


@cached_in_headers
def _fields_digest(headers: Headers) -> int | None:
    if any(name is None or value is None for name, value in headers):
        return None
    return hash(tuple(headers))


@dataclass(slots=True, eq=False)
class ConnectionEnd:
    """A connection as one of its ends sees it.

    ``nodes``: what is no server's view, by HTTP/2 streams, else by running numbers, which begin at
    ``first`` and end at ``count``. ``forgotten_ns``: when the last one ended that was
    forgotten. ``first_ns``: when its first exchange began.
    ``addresses``: those under which it is known.
    """

    connection: Connection
    first_ns: int
    nodes: dict[int, TreeNode] = field(default_factory=dict)
    addresses: Addresses | None = None
    first: int = 1
    count: int = 0
    forgotten_ns: int | None = None
    closed_ns: int = FOREVER_NS

    @property
    def is_whole(self) -> bool:
        """Whether all of it was seen, and decoded."""
        connection = self.connection
        return (
            connection.from_start
            and not connection.missing
            and not connection.evictions
            and not connection.left_out
        )

    def ended_ns(self, number: int) -> int | None:
        """Return when an exchange ended, or later; None: not known. Not for HTTP/2."""
        if number == self.first - 1:
            return self.forgotten_ns
        node = self.nodes.get(number)
        return None if node is None else node.ended_ns

    def forget(self, node: TreeNode) -> None:
        """Forget an exchange."""
        self.forgotten_ns = max(self.forgotten_ns or 0, node.ended_ns)
        self.nodes.pop(node.key, None)
        while self.first <= self.count and self.first not in self.nodes:
            self.first += 1
