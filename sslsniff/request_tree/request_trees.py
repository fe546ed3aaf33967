"""Joins exchanges of several processes into the trees of requests.

An exchange belongs to another one if that is proved:

- both are the two ends of one exchange, as the client and as the server saw it
  (``connection_ends``);
- a process made it as a client while it served the other one, and both have the same id
  (``served_requests``);
- the goroutine, or the thread that waits for one connection alone, made it that read the other one
  before, and answered it after (``task_notes``).

All else is left apart: no thread and no time proves anything where an event loop may be at work.

Where only servers or only clients are watched, none belongs to another one, and none waits but for
those before it. Else an exchange is joined ``SETTLE_NS`` after its end, when all that began before
is known, whatever ends in which order. A tree is shown ``SETTLE_NS`` after its first exchange was
joined. It waits ``WAIT_NS`` for the end of one that it belongs to, and is then shown alone. So it
waits for the response that its task may write.

Memory: exchanges that wait, ``MOST_WAITING`` and ``MOST_WAITING_BYTES`` at most, then the oldest
are shown early; and a kilobyte for each that was shown and is remembered. Another one belongs to it
only if it began before the end of this. So one is forgotten ``LATE_NS`` after its end, unless one
that began before its end is not joined yet. What other machines say has clocks of its own, and is
remembered for ``REMEMBER_NS``. All of them are ``MOST_REMEMBERED`` at most, and none is older than
``REMEMBER_NS``. What began before one of the requests that were forgotten ended is not joined by an
id, as one of these might fit, too.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator

from sslsniff.core.exchanges.open_exchange import head_bytes
from sslsniff.core.model import Connection, Exchange
from sslsniff.core.sink import TreeCounts
from sslsniff.core.tree_place import CONNECTION
from sslsniff.decoders.messages import Side
from sslsniff.request_tree.connection_ends import ConnectionEnds
from sslsniff.request_tree.request_ids import request_ids
from sslsniff.request_tree.served_requests import ServedRequests, Unknown
from sslsniff.request_tree.task_notes import Task, TaskNotes
from sslsniff.request_tree.tree_node import TreeNode, digest_of

SETTLE_NS = 100_000_000
WAIT_NS = 10_000_000_000
LATE_NS = 1_000_000_000
"""For so long it may not be known that an exchange has begun, as its head is not whole."""
REMEMBER_NS = 60_000_000_000
MOST_WAITING = 10_000
MOST_WAITING_BYTES = 32 << 20
MOST_REMEMBERED = 20_000

_EXCHANGE_BYTES = 1000
"""About the memory of an exchange without its heads and bodies."""


class RequestTrees:
    """Calls ``show`` with the exchanges of each tree in order, the first one of the request first.

    Their ``tree`` is set. ``tasks``: what is known of goroutines and threads; None: nothing.
    ``counts``: what was joined so far.
    """

    def __init__(
        self, show: Callable[[list[Exchange]], None], tasks: TaskNotes | None = None
    ) -> None:
        self.counts = TreeCounts()
        self._last_number = 0
        self._tasks = tasks
        self._show = show
        self._ends = ConnectionEnds()
        self._served = ServedRequests()
        self._unjoined: OrderedDict[TreeNode, None] = OrderedDict()
        """Exchanges that are not joined yet, in the order in which they began."""
        self._ended: deque[tuple[int, TreeNode]] = deque()
        """Exchanges that are joined at a time."""
        self._joined: deque[tuple[int, TreeNode]] = deque()
        """Exchanges that are shown at a time, or wait from then on."""
        self._late: deque[tuple[int, TreeNode]] = deque()
        """Exchanges that are shown at a time even if those that they belong to have not ended."""
        self._shown: deque[TreeNode] = deque()
        self._now_ns = 0
        self._forgotten_ns = 0
        """When the last of the requests ended that were forgotten."""
        self._waiting = 0
        self._waiting_bytes = 0

    def begin(self, exchange: Exchange) -> None:
        """Note an exchange that has begun: its request head or statement is known."""
        connection = exchange.connection
        process = connection.process
        found = request_ids(exchange)
        node = TreeNode(
            id="",
            exchange=exchange,
            process=(process.machine, process.pid),
            role=connection.role,
            stream=exchange.stream,
            started_ns=exchange.started_ns,
            ids=found.ids,
            may_have_more_ids=found.may_have_more,
            digest=digest_of(exchange),
        )
        if self._tasks is not None:
            node.task = self._tasks.task_at(process.pid, node.started_ns)
        self._ends.add(node, connection)
        node.id = f"{connection.id}/{node.number}"
        exchange.tree = node
        self._unjoined[node] = None
        if node.role is Side.SERVER and node.may_have_parts and process.is_known:
            self._served.add(node)

    def end(self, exchange: Exchange) -> None:
        """Note an exchange that has ended."""
        if exchange.tree is None:
            self.begin(exchange)
        node = exchange.tree
        assert isinstance(node, TreeNode)
        node.ended_ns = exchange.ended_ns or exchange.started_ns
        node.first_byte_ns = exchange.first_byte_ns
        self.advance(node.ended_ns)
        self._waiting += 1
        settled_ns = self._settled_ns(node, self._now_ns)
        if self._waiting == 1 and settled_ns == self._now_ns:
            self._set_joined(node)
            self._show_tree(node)
            return
        node.held_bytes = _held_bytes(exchange)
        self._waiting_bytes += node.held_bytes
        self._ended.append((settled_ns, node))
        while self._waiting > MOST_WAITING or self._waiting_bytes > MOST_WAITING_BYTES:
            self._show_oldest()

    def show_now(self, exchange: Exchange) -> None:
        """Show an exchange that has ended, with its tree as far as it is known."""
        node = exchange.tree
        if isinstance(node, TreeNode) and not node.is_shown:
            self._join(self._now_ns, node)
            self._show_tree(_first_of(node))

    def close(self, connection: Connection, time_ns: int) -> None:
        """Note that a connection ended, after its exchanges."""
        self._ends.close(connection, time_ns)

    def advance(self, now_ns: int) -> None:
        """Join and show what is due at a time."""
        self._now_ns = now_ns = max(now_ns, self._now_ns)
        ended, joined, late, shown = self._ended, self._joined, self._late, self._shown
        while ended and ended[0][0] <= now_ns:
            due_ns, node = ended.popleft()
            if due_ns < node.ended_ns + WAIT_NS and self._awaits_answer(node):
                ended.append((due_ns + SETTLE_NS, node))
            else:
                self._join(due_ns, node)
        while joined and joined[0][0] <= now_ns:
            self._show_or_wait(*joined.popleft())
        while late and late[0][0] <= now_ns:
            self._show_tree(_first_of(late.popleft()[1]))
        while shown and (len(shown) > MOST_REMEMBERED or self._is_unneeded(shown[0])):
            self._forget(shown.popleft())

    def finish(self) -> None:
        """Join and show all that is left."""
        for due_ns, node in self._ended:
            self._join(due_ns, node)
        for _, node in [*self._late, *self._joined]:
            self._show_tree(_first_of(node))

    def _join(self, due_ns: int, node: TreeNode) -> None:
        """Find what an exchange belongs to."""
        if node.is_joined:
            return
        parent, evidence = self._parent(node)
        self._set_joined(node)
        if parent is not None and not parent.is_below(node):
            node.parent_node, node.parent, node.evidence = parent, parent.id, evidence
            parent.add_child(node)
            if evidence == CONNECTION:
                parent.served = node
                self.counts.ends += 1
            else:
                self.counts.joined += 1
        self._joined.append((self._settled_ns(node, due_ns), node))

    def _settled_ns(self, node: TreeNode, since_ns: int) -> int:
        """Return when all is known that began before ``since_ns``."""
        later_ns = since_ns + SETTLE_NS
        return since_ns if self._ends.has_one_side(node, since_ns - SETTLE_NS) else later_ns

    def _parent(self, node: TreeNode) -> tuple[TreeNode | None, str | None]:
        if node.role is Side.SERVER:
            client = self._ends.seen_by_client(node)
            is_free = client is not None and client.served is None
            return (client, CONNECTION) if is_free else (None, None)
        self._ends.note_addresses(node)
        if not (node.ids or node.task.number):
            return None, None
        if node.started_ns <= self._forgotten_ns:
            self.counts.too_old += 1
            return None, None
        found = self._served.served_by(node)
        if not isinstance(found, Unknown):
            return found
        request = self._served.read_by_task(node)
        if request is not None and self._is_answered_by(request, node.task, node.started_ns):
            return request, node.task.evidence
        self.counts.ambiguous += found is Unknown.SEVERAL
        return None, None

    def _is_answered_by(self, request: TreeNode, task: Task, after_ns: int) -> bool:
        """Say whether a task began the response to a request after a time."""
        begun_ns = request.response_ns
        if begun_ns is None or begun_ns <= after_ns or self._tasks is None:
            return False
        return self._tasks.task_at(request.process[1], begun_ns).number == task.number

    def _awaits_answer(self, node: TreeNode) -> bool:
        """Say whether the task that made an exchange may still answer a request."""
        if not node.task.number or node.role is Side.SERVER:
            return False
        request = self._served.read_by_task(node)
        return request is not None and request.is_open and request.response_ns is None

    def _show_or_wait(self, due_ns: int, node: TreeNode) -> None:
        """Show an exchange and what belongs to it, unless it belongs to one that is not shown."""
        if node.is_shown:
            return
        if node.parent_node is None or node.parent_node.is_shown:
            self._show_tree(node)
        else:
            self._late.append((due_ns + WAIT_NS, node))

    def _show_oldest(self) -> None:
        for queue in (self._late, self._joined, self._ended):
            if queue:
                due_ns, node = queue.popleft()
                self._join(due_ns, node)
                self._show_tree(_first_of(node))
                return

    def _show_tree(self, first: TreeNode) -> None:
        """Show an exchange with all that belongs to it, if it was not shown."""
        if first.is_shown:
            return
        self._last_number += 1
        self.counts.trees += first.parent is None  # else it is a part that is shown apart
        nodes = [first] if first.children is None else [*_in_order(first)]
        exchanges = [node.exchange for node in nodes if node.exchange is not None]
        for node in nodes:
            node.members, node.tree_number = exchanges, self._last_number
            node.other_end = node.served.exchange if node.served is not None else None
        self._show(exchanges)
        self._waiting -= len(nodes)
        for node in nodes:
            node.is_shown = True
            node.exchange = node.other_end = None
            node.members, node.children, node.served = (), None, None
            self._waiting_bytes -= node.held_bytes
            if node.may_have_parts:
                self._shown.append(node)

    def _is_unneeded(self, node: TreeNode) -> bool:
        """Say whether no exchange that comes can belong to one, or only one that comes too late."""
        past_ns = self._now_ns - node.ended_ns
        if past_ns > REMEMBER_NS:
            return True
        if past_ns <= LATE_NS or node.process[0] is not None:  # clocks of machines differ
            return False
        oldest = next(iter(self._unjoined), None)
        return oldest is None or oldest.started_ns > node.ended_ns

    def _set_joined(self, node: TreeNode) -> None:
        node.is_joined = True
        del self._unjoined[node]

    def _forget(self, node: TreeNode) -> None:
        if node.role is not Side.SERVER:
            self._ends.forget(node)
        elif node.process[1]:
            self._forgotten_ns = max(self._forgotten_ns, node.ended_ns)
            self._served.forget(node)


def _first_of(node: TreeNode) -> TreeNode:
    """Return the first exchange that ended of those that ``node`` belongs to, and of itself."""
    while (parent := node.parent_node) is not None and parent.is_joined and not parent.is_shown:
        node = parent
    return node


def _in_order(first: TreeNode) -> Iterator[TreeNode]:
    """Yield an exchange, its view of the other end, and then what belongs to both, by time."""
    first.depth = 0
    waiting = [first]
    while waiting:
        node = waiting.pop()
        yield node
        children = [*node.waiting_children()]
        served = node.served
        if served is not None and served in children:
            served.depth, served.is_other_end = node.depth, True
            yield served
            children.remove(served)
            children += served.waiting_children()
        children.sort(key=lambda each: (each.started_ns, each.id), reverse=True)
        for each in children:
            each.depth = node.depth + 1
        waiting += children


def _held_bytes(exchange: Exchange) -> int:
    size = _EXCHANGE_BYTES
    for message in (exchange.request, exchange.response):
        if message is not None:
            size += len(message.body.data) + head_bytes(message.headers)
    return size if exchange.statement is None else size + exchange.statement.held_bytes
