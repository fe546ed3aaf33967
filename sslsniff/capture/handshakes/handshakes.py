"""Joins what the kernel and the libraries saw of handshakes without data, into one event each.

The kernel reports a socket: who, with whom, what passed in clear, and how the TCP connection ended.
A library reports why it gave up. Both know the client random, the 32 bytes that a client chooses
for each handshake: so they are joined by it. Where one of them does not have it (a socket whose
ClientHello the kernel did not see; a library that gave up before it read one), they are joined by
the socket that the library's thread used, or if all such reports of the process at that time say
the same. Otherwise the event does not say why: a wrong cause is worse than none.

A program may close the socket first, or give up the library's object. So either report waits for
the other for a while. A library may report several times: first the alert that it sends, then what
it found of the certificate.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence

from sslsniff.capture.handshakes.socket_evidence import facts_of
from sslsniff.capture.handshakes.tls_evidence import client_random, server_name
from sslsniff.core.events import Failure, HandshakeEnded, TlsSocket, TlsStart
from sslsniff.core.handshakes import CLOSED_BY_PEER, HANDSHAKE_ALERTS, HandshakeFacts
from sslsniff.core.library_failure import LibraryFailure
from sslsniff.decoders.messages import Side

_SOCKET_DELAY_S = 0.5
_DELAY_S = 2.0
"""How long reports of sockets and of libraries wait."""
_MOST_WAITING = 4096
"""Reports of either: beyond it the oldest does not wait any longer."""
_MOST_REPORTED = 65536

_UNKNOWN = "unknown"
_ROLES = {
    TlsStart.CLIENT_HELLO: Side.CLIENT,
    TlsStart.SERVER_HELLO: Side.SERVER,
    TlsStart.HELLO_RECEIVED: Side.SERVER,
    TlsStart.ALERT_SENT: Side.SERVER,
}


class Handshakes:
    """Makes an event of each handshake without data.

    ``libraries``: the names that a connection's library indexes. ``failures``: such a name -> what
    says in words what the library's error means, and what it found of a certificate.

    Memory: half a kilobyte for each of some thousand reports, 100 bytes for each of 65,536 that
    were joined.
    """

    def __init__(
        self,
        libraries: Sequence[str],
        failures: Mapping[str, Callable[[int, int | None], LibraryFailure]],
    ) -> None:
        self._libraries = libraries
        self._failures = failures
        self._waiting: dict[int, tuple[float, Failure]] = {}
        """A connection -> until when its library's report waits, and the report."""
        self._sockets: deque[tuple[float, TlsSocket, int]] = deque()
        """When a socket's report is due, the report, and when it came."""
        self._unplaced: set[int] = set()
        """Of those that wait: they fit a socket, but so did others, which say something else."""
        self._reported: dict[bytes | int, int] = {}
        """The randoms and sockets of reports that did not wait any longer -> their times."""
        self._ended: deque[HandshakeEnded] = deque()

    def fail(self, failure: Failure) -> None:
        """Note that a library gives up a connection; of several reports the first counts most."""
        connection = failure.opened.connection
        if failure.has_data and not self._is_of_handshake(failure):
            return  # an exchange ended early, if it did
        if connection in self._waiting:
            until_s, first = self._waiting[connection]
            self._waiting[connection] = until_s, _completed(first, failure)
            return
        if len(self._waiting) >= _MOST_WAITING:
            self._release(next(iter(self._waiting)))
        self._waiting[connection] = time.monotonic() + _DELAY_S, failure

    def alerts_of(self, failure: Failure) -> tuple[int | None, int | None]:
        """Return the numbers of the alerts that a library's report says were sent and received.

        One that only answers the end of the TCP connection does not count.
        """
        facts = self._joined(HandshakeFacts(), failure)
        is_answer = facts.kind == CLOSED_BY_PEER
        return None if is_answer else facts.sent_alert, facts.received_alert

    def end(self, found: TlsSocket, now_ns: int) -> None:
        """Note a TLS socket on which no data passed, at its end, or at that of the capture."""
        if len(self._sockets) >= _MOST_WAITING:
            self._join(*self._sockets.popleft()[1:])
        self._sockets.append((time.monotonic() + _SOCKET_DELAY_S, found, now_ns))

    def _join(self, found: TlsSocket, now_ns: int) -> None:
        """Make an event of a socket's report, and of the library's if there is one."""
        role = _ROLES.get(found.start)
        if role is None:
            return  # a connection from before the capture, of which nothing was seen
        random = client_random(found.hello)
        last_ns = max(self._reported.get(random, 0), self._reported.get(found.socket, 0))
        if last_ns >= found.time_ns:  # an earlier one is of another socket at this address
            return
        failure = self._failure_of(found, role)
        facts = facts_of(found)
        self._ended.append(
            HandshakeEnded(
                time_ns=found.ended_ns or now_ns,
                began_ns=found.time_ns,
                pid=found.pid,
                uid=found.uid,
                comm=found.comm,
                library=_UNKNOWN if failure is None else self._library(failure),
                role=role,
                sni=server_name(found.hello) or (failure and failure.opened.sni),
                local=found.local,
                remote=found.remote,
                facts=facts if failure is None else self._joined(facts, failure),
                cgroup=found.cgroup,
                container_pid=failure and failure.opened.container_pid,
            )
        )

    def drain(self, *, is_over: bool = False) -> Iterator[HandshakeEnded]:
        """Yield the events that are due, once; ``is_over``: no more comes."""
        now_s = time.monotonic()
        while self._sockets and (is_over or self._sockets[0][0] <= now_s):
            self._join(*self._sockets.popleft()[1:])
        for connection, (until_s, _) in list(self._waiting.items()):
            if not is_over and until_s > now_s:
                break
            self._release(connection)
        while self._ended:
            yield self._ended.popleft()

    def _failure_of(self, found: TlsSocket, role: Side) -> Failure | None:
        """Take the library's report of a socket's handshake out of those that wait."""
        random = client_random(found.hello)
        own = [
            each
            for _, each in self._waiting.values()
            if each.opened.pid == found.pid and each.opened.role in (role, None)
        ]
        unsure = [
            each
            for each in own
            if not (random and each.random) and each.opened.time_ns >= found.time_ns
        ]
        same = (
            [each for each in own if random and each.random == random]
            or [each for each in unsure if _is_on(each, found)]
            or [each for each in unsure if not each.is_sure]
        )
        if len({each[1:4] for each in same}) > 1:  # they say different things
            self._unplaced |= {each.opened.connection for each in same}
            return None
        for each in same[:1]:
            del self._waiting[each.opened.connection]
            return each
        return None

    def _release(self, connection: int) -> None:
        """Make an event of a library's report alone; its socket is not reported any more."""
        _, failure = self._waiting.pop(connection)
        if connection in self._unplaced:
            self._unplaced.remove(connection)
            return  # its socket's event says nothing of the cause, which may be another's
        facts = self._joined(HandshakeFacts(), failure)
        if facts == HandshakeFacts():
            return  # the library only says that the connection is over
        opened = failure.opened
        for key in (failure.random, failure.socket):
            if not key:
                continue
            if len(self._reported) >= _MOST_REPORTED:
                del self._reported[next(iter(self._reported))]
            self._reported[key] = opened.time_ns
        self._ended.append(
            HandshakeEnded(
                time_ns=opened.time_ns,
                began_ns=opened.time_ns,
                pid=opened.pid,
                uid=opened.uid,
                comm=opened.comm,
                library=self._library(failure),
                role=opened.role,
                sni=opened.sni,
                local=failure.local,
                remote=failure.remote,
                facts=facts,
                has_data=failure.has_data,
                cgroup=opened.cgroup,
                container_pid=opened.container_pid,
            )
        )

    def _is_of_handshake(self, failure: Failure) -> bool:
        """Return whether an alert says that a handshake failed, though data passed."""
        facts = self._joined(HandshakeFacts(), failure)
        return bool(HANDSHAKE_ALERTS & {facts.sent_alert, facts.received_alert})

    def _library(self, failure: Failure) -> str:
        return self._libraries[failure.opened.library]

    def _joined(self, facts: HandshakeFacts, failure: Failure) -> HandshakeFacts:
        """Add what a library's error says."""
        explain = self._failures.get(self._library(failure))
        said = explain(failure.error, failure.verified) if explain else LibraryFailure()
        return facts._replace(
            sent_alert=_first_known(failure.alert, facts.sent_alert, said.sent_alert),
            received_alert=said.received_alert or facts.received_alert,
            kind=said.kind,
            error=said.text,
            role=said.role,
        )


def _is_on(failure: Failure, found: TlsSocket) -> bool:
    """Return whether a failure's socket is this one, and not a later one at its address."""
    return failure.socket == found.socket and failure.remote in (None, found.remote)


def _first_known(*alerts: int | None) -> int | None:
    return next((each for each in alerts if each is not None), None)


def _completed(first: Failure, later: Failure) -> Failure:
    """Return a library's first report with what only a later one of the connection has."""
    placed = first if first.socket else later
    return first._replace(
        alert=later.alert if first.alert is None else first.alert,
        error=first.error or later.error,
        verified=first.verified or later.verified,
        socket=placed.socket,
        local=placed.local,
        remote=placed.remote,
        random=first.random or later.random,
    )
