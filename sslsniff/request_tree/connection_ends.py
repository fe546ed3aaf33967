"""Finds the two ends of a connection where both are watched, and joins their exchanges.

The ends have the same two addresses, mirrored, at the same time. If several connections fit, as in
containers that use the same addresses in networks of their own, none is joined.

An exchange that a server saw is the one that its client saw

- with HTTP/2: on the same stream;
- else, if both ends were seen from the start without a loss: with the same running number;
- else, on one machine, by their times. A server reads a request after its client wrote it, and the
  client reads the end of the response after the server read the request. So, if a client waits for
  each response before its next request, the request that the server reads at a time is that of the
  first response that ends at its client after this time.

In all cases requests and statements must be equal, as far as they are known, and on one machine
both views must overlap, or the client's exchange before have ended when the server's began.
"""

from itertools import islice

from sslsniff.core.model import Connection
from sslsniff.core.networks import is_one_network
from sslsniff.decoders.messages import Side
from sslsniff.request_tree.tree_node import FOREVER_NS, Addresses, ConnectionEnd, TreeNode

_MOST_LOOKED_AT = 64


class ConnectionEnds:
    """Knows the ends of all connections with exchanges that are remembered."""

    def __init__(self) -> None:
        self._ends: dict[str, ConnectionEnd] = {}
        self._clients: dict[Addresses, list[ConnectionEnd]] = {}
        self._unknown: dict[str, ConnectionEnd] = {}
        """Clients' ends whose addresses are not known yet, by the ids of their connections."""
        self._sides: set[Side | None] = set()
        """Those of all connections that were seen."""

    def add(self, node: TreeNode, connection: Connection) -> None:
        """Add an exchange that has begun, as the next one of its connection."""
        end = self._ends.get(connection.id)
        if end is None:
            end = self._ends[connection.id] = ConnectionEnd(connection, node.started_ns)
        self._sides.add(node.role)
        end.count += 1
        node.end, node.number = end, end.count
        if node.role is not Side.SERVER:
            end.nodes[node.key] = node
        if connection.role is Side.CLIENT:
            self._note_addresses(end)

    def note_addresses(self, node: TreeNode) -> None:
        """Note the addresses of a client's connection, which may have become known since."""
        if node.end is not None and node.role is Side.CLIENT:
            self._note_addresses(node.end)

    def close(self, connection: Connection, time_ns: int) -> None:
        """Note that a connection ended."""
        end = self._ends.get(connection.id)
        if end is not None:
            end.closed_ns = time_ns
            self._forget_unused(end)

    def forget(self, node: TreeNode) -> None:
        """Forget an exchange, and its connection if nothing of it is left."""
        if node.end is not None:
            node.end.forget(node)
            self._forget_unused(node.end)

    def has_one_side(self, node: TreeNode, settled_ns: int) -> bool:
        """Say whether only servers, or only clients, were seen, and nothing joins ``node``.

        If the other end of its connection were watched, it would have been seen: the first exchange
        there began before ``settled_ns``, so all that belongs to it is known.
        """
        end = node.end
        return len(self._sides) == 1 and end is not None and end.first_ns < settled_ns

    def seen_by_client(self, served: TreeNode) -> TreeNode | None:
        """Return the exchange of the client that is the one that a server saw; None: not known."""
        end = served.end
        if self._unknown:
            self._note_new_addresses()
        peer = self._peer(served, end) if end is not None and self._clients else None
        if end is None or peer is None:
            return None
        found = _same_place(served, end, peer)
        return found if found is not None and _is_same(served, found, peer) else None

    def _note_addresses(self, end: ConnectionEnd) -> None:
        connection = end.connection
        local, remote = connection.local, connection.remote
        if local is None or remote is None:
            self._unknown[connection.id] = end
        elif (local, remote) != end.addresses:
            self._forget_addresses(end)
            end.addresses = local, remote
            self._clients.setdefault(end.addresses, []).append(end)

    def _note_new_addresses(self) -> None:
        """Note addresses that became known; those of the newest connections are looked at."""
        for end in [*islice(reversed(self._unknown.values()), _MOST_LOOKED_AT)]:
            self._note_addresses(end)

    def _forget_addresses(self, end: ConnectionEnd) -> None:
        self._unknown.pop(end.connection.id, None)
        known = self._clients.get(end.addresses) if end.addresses is not None else None
        if known is not None and end.addresses is not None:
            known.remove(end)
            if not known:
                del self._clients[end.addresses]

    def _forget_unused(self, end: ConnectionEnd) -> None:
        if not end.nodes and end.closed_ns != FOREVER_NS:
            self._forget_addresses(end)
            self._ends.pop(end.connection.id, None)

    def _peer(self, served: TreeNode, end: ConnectionEnd) -> ConnectionEnd | None:
        """Return the client's end of the connection of ``served``."""
        local, remote = end.connection.local, end.connection.remote
        if local is None or remote is None:
            return None
        fitting = [
            each
            for each in self._clients.get((remote, local), ())
            if each.closed_ns >= served.started_ns
            and each.connection.opened_ns <= served.ended_ns
            and each.connection.tls == end.connection.tls
            and is_one_network(each.connection.process, end.connection.process, local)
        ]
        return fitting[0] if len(fitting) == 1 else None


def _is_same(served: TreeNode, found: TreeNode, peer: ConnectionEnd) -> bool:
    """Say whether two exchanges may be one: equal, as far as known, and at the same time."""
    if served.process[0] == found.process[0]:
        if found.ended_ns < served.started_ns:
            return False
        if found.started_ns > served.ended_ns and not _is_next(served, found, peer):
            return False
    return None in (served.digest, found.digest) or served.digest == found.digest


def _is_next(served: TreeNode, found: TreeNode, peer: ConnectionEnd) -> bool:
    """Say whether the client's exchange before ``found`` had ended when the server read its own.

    A request has the time at which the call that wrote it returned: on a busy machine, that may be
    after the server's answer.
    """
    before_ns = peer.ended_ns(found.number - 1) if found.stream is None else None
    return before_ns is not None and before_ns < served.started_ns


def _same_place(served: TreeNode, end: ConnectionEnd, peer: ConnectionEnd) -> TreeNode | None:
    """Return the exchange at ``peer`` that has the place of ``served`` at the other ``end``."""
    if served.stream is not None:
        found = peer.nodes.get(served.stream)
        return found if found is not None and found.stream is not None else None
    if end.is_whole and peer.is_whole:
        return peer.nodes.get(served.number)
    if end.connection.process.machine != peer.connection.process.machine:
        return None
    return _at_the_same_time(served, peer)


def _at_the_same_time(served: TreeNode, peer: ConnectionEnd) -> TreeNode | None:
    """Return the exchange of ``peer`` that the times prove, see above; None: there is none."""
    if served.digest is None or not peer.nodes:
        return None
    nodes = peer.nodes
    low, high = peer.first, peer.count
    while low < high:  # the first that ended after the server began to read
        middle = (low + high) // 2
        node = nodes.get(middle)
        if node is None:
            return None
        if node.ended_ns >= served.started_ns:
            high = middle
        else:
            low = middle + 1
    found, before_ns, after = nodes.get(low), peer.ended_ns(low - 1), nodes.get(low + 1)
    if found is None or found.ended_ns < served.started_ns or found.digest is None:
        return None
    if after is not None and after.started_ns < found.ended_ns:
        return None  # the client does not wait for responses
    if before_ns is None:
        return found if found.started_ns <= served.started_ns else None
    return found if before_ns < min(found.started_ns, served.started_ns) else None
