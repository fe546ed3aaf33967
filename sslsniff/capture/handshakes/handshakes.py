"""Collects handshakes without data, until their events are due."""

from collections import deque
from collections.abc import Iterator

from sslsniff.capture.handshakes.socket_evidence import facts_of
from sslsniff.capture.unseen.tls_evidence import server_name
from sslsniff.core.events import HandshakeEnded, TlsSocket, TlsStart
from sslsniff.decoders.messages import Side

_UNKNOWN_LIBRARY = 0
_ROLES = {
    TlsStart.CLIENT_HELLO: Side.CLIENT,
    TlsStart.SERVER_HELLO: Side.SERVER,
    TlsStart.HELLO_RECEIVED: Side.SERVER,
}


class Handshakes:
    """Makes an event of each handshake without data."""

    def __init__(self) -> None:
        self._ended: deque[HandshakeEnded] = deque()

    def add(self, found: TlsSocket, now_ns: int) -> None:
        """Note a TLS socket on which no data passed, at its end, or at that of the capture."""
        role = _ROLES.get(found.start)
        if role is None:
            return  # a connection from before the capture, of which nothing was seen
        self._ended.append(
            HandshakeEnded(
                time_ns=found.ended_ns or now_ns,
                began_ns=found.time_ns,
                pid=found.pid,
                uid=found.uid,
                comm=found.comm,
                library=_UNKNOWN_LIBRARY,
                role=role,
                tls_version=None,
                sni=server_name(found.hello),
                local=found.local,
                remote=found.remote,
                facts=facts_of(found),
                cgroup=found.cgroup,
            )
        )

    def drain(self) -> Iterator[HandshakeEnded]:
        """Yield the events that are due, once."""
        while self._ended:
            yield self._ended.popleft()
