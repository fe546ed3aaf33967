"""Turns the kernel's records into events: joins what belongs together, and finds out how it ends.

A record passes these, in this order: what is known of its process's container; whether its socket
is one without probes; the joining of two directions that were opened one by one (rustls); and how
its connection ended. Each may hold a record back, or add events.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from sslsniff.capture.connection_endings import ConnectionEndings
from sslsniff.capture.handshakes.handshakes import Handshakes
from sslsniff.capture.maps import OpenConnections, Tables
from sslsniff.capture.process_containers import ProcessContainers
from sslsniff.capture.unseen.unprobed_libraries import UnprobedLibraries
from sslsniff.capture.unseen.unseen_tls import UnseenTls
from sslsniff.core import events
from sslsniff.core.events import IsOver
from sslsniff.core.fast_path import FastPath
from sslsniff.libraries.rustls.joiner import RustlsConnections
from sslsniff.libraries.supported import FAILURES

if TYPE_CHECKING:
    from sslsniff.capture.stdio.stdio_connections import StdioConnections


class RecordEvents:
    """Makes the events of one capture.

    ``open``: the connections that have not ended. ``unseen``: those that no probe sees.
    ``saw_exit``: whether a process has ended; its reader sets it back.
    ``libraries``: see ``Source``. ``began_ns``: see ``UnseenTls``. ``stdio``: None where what
    processes write to each other is not watched.
    """

    def __init__(
        self,
        libraries: list[str],
        fast_path: FastPath,
        tables: Tables,
        containers: ProcessContainers,
        unprobed: UnprobedLibraries,
        clock_offset_ns: int,
        began_ns: int,
        stdio: "StdioConnections | None",
    ) -> None:
        self.open = OpenConnections(tables)
        self.saw_exit = False
        self._containers = containers
        self._stdio = stdio
        self._handshakes = Handshakes(libraries, FAILURES)
        self._joiner = RustlsConnections(fast_path)
        self._endings = ConnectionEndings()
        self._stopped_ns: int | None = None
        is_watched = containers.is_watched
        self.unseen = UnseenTls(
            tables, unprobed, is_watched, clock_offset_ns, self._handshakes, began_ns
        )

    def stop(self, now_ns: int) -> None:
        """Note that the BPF programs were stopped: they emit no plaintext after that."""
        self._stopped_ns = now_ns

    def handle(self, record: events.Record) -> Iterable[events.Event]:
        """Return the events that follow from a record."""
        event = self._containers.handle(record)
        if event is None:
            return ()
        if self._stdio is not None and isinstance(event, events.Opened) and event.peer is not None:
            return self._stdio.begin(event)
        self.unseen.handle(event)
        if isinstance(event, events.TlsSocket):
            return ()
        if isinstance(event, events.Failure):
            self._handshakes.fail(event)
            self._note_alert(event)
            return ()
        if isinstance(event, events.SocketEnded):
            return self._endings.end_socket(event)
        if isinstance(event, events.Exited):
            self.saw_exit = True
        self.open.remember(event)
        if self._stopped_ns is not None and events.ends_after(event, self._stopped_ns):
            return ()
        return self.joined(event)

    def joined(self, event: events.Record) -> Iterable[events.Event]:
        """Return what follows from an event of a connection whose directions may be apart."""
        if self._stdio is not None and (passed := self._stdio.handle(event)) is not None:
            return passed
        joined = self._joiner.handle(event)
        # A tuple has data alone, as nearly always.
        return joined if type(joined) is tuple else self._endings.handle(joined)

    def due(self) -> Iterator[events.Event]:
        """Yield what waited long enough: ends of handshakes and connections."""
        self.unseen.poll()
        yield from self._ended_handshakes()
        yield from self._endings.release()

    def due_halves(self, now_ns: int) -> Iterator[events.Event]:
        """Yield the events of directions that waited long enough for their other one.

        Call it when all records were read: what they wait for may be among those.
        """
        yield from self._endings.handle(self._joiner.release(now_ns))

    def release(self) -> Iterator[events.Event]:
        """Yield the events of connections that wait still: no more records come."""
        yield from self._endings.handle(self._joiner.release())
        yield from self._endings.release(is_over=True)

    def last_handshakes(self) -> Iterator[events.Event]:
        """Yield the handshakes without data that were not reported yet."""
        self.unseen.finish()
        yield from self._ended_handshakes(is_over=True)

    def final_positions(self, now_ns: int, is_over: IsOver) -> Iterator[events.Event]:
        """Yield how many bytes passed on each open connection, until it ``is_over``."""
        for checked in self.open.final_positions(now_ns, is_over):
            yield from self._joiner.handle(checked)
        if self._stdio is not None:
            yield from self._stdio.final_positions(now_ns)

    def _ended_handshakes(self, *, is_over: bool = False) -> Iterator[events.Event]:
        for each in self._handshakes.drain(is_over=is_over):
            event = self._containers.handle(each)
            if isinstance(event, events.HandshakeEnded):
                yield event

    def _note_alert(self, failure: events.Failure) -> None:
        """Note an alert after data as the end of its connection."""
        if failure.has_data:
            facts = self._handshakes.alerts_of(failure)
            number = self._joiner.connection_of(failure.opened.connection)
            self._endings.alert(failure.opened.time_ns, number, *facts)
