"""Makes events of the handshakes without data that preloaded programs report.

A program reports a handshake when it begins, when the other side answers, when it is complete, and
when the library's object ends without data. It may end at any moment before that, and it reports
data by other records. So the last report of a connection waits until one of these says how it
ended. What is known then goes the way of what the kernel reports: ``capture.handshakes``.
"""

from collections.abc import Iterator, Sequence

from sslsniff.capture.handshakes.handshakes import Handshakes
from sslsniff.core import events
from sslsniff.core.handshakes import SocketEnding
from sslsniff.libraries.supported import FAILURES

_MOST_WAITING = 65536


class PreloadedHandshakes:
    """The handshakes of preloaded programs; ``libraries``: see ``Handshakes``.

    Memory: two kilobytes for each that is going on, of 65,536 at most.
    """

    def __init__(self, libraries: Sequence[str]) -> None:
        self._ended = Handshakes(libraries, FAILURES)
        self._waiting: dict[int, events.TlsSocket] = {}
        """The last report of each connection whose handshake may go on."""

    def report(self, found: events.TlsSocket, now_ns: int) -> None:
        """Note what a program knows of a handshake by now; ``found.socket``: its connection."""
        self._waiting.pop(found.socket, None)
        if found.has_ended:
            self._ended.end(found, now_ns)
            return
        if len(self._waiting) >= _MOST_WAITING:
            del self._waiting[next(iter(self._waiting))]
        self._waiting[found.socket] = found

    def fail(self, failure: events.Failure) -> None:
        """Note why a library gives up a connection."""
        self._ended.fail(failure)

    def pass_data(self, connection: int) -> None:
        """Note that data passes on a connection, or that it is left out."""
        self._waiting.pop(connection, None)

    def end_process(self, exited: events.Exited) -> None:
        """Note that a process ended, and with it the handshakes that it had not given up."""
        for found in [each for each in self._waiting.values() if each.pid == exited.pid]:
            ending = found.ending or SocketEnding.CLOSED
            ended = found._replace(ending=ending, ended_ns=exited.time_ns, has_ended=True)
            self.report(ended, exited.time_ns)

    def drain(self, now_ns: int, *, is_over: bool = False) -> Iterator[events.HandshakeEnded]:
        """Yield those that ended, once; ``is_over``: also those that may go on."""
        if is_over:
            for found in self._waiting.values():
                self._ended.end(found, now_ns)
            self._waiting.clear()
        yield from self._ended.drain(is_over=is_over)
