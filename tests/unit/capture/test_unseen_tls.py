"""Sockets without a probed library count, unless a probed connection has none of its own."""

from collections.abc import Iterator

import pytest

from sslsniff.capture.handshakes.handshakes import Handshakes
from sslsniff.capture.scope import Scope
from sslsniff.capture.unseen.unprobed_libraries import UnprobedLibraries
from sslsniff.capture.unseen.unseen_tls import UnseenTls, peer_of
from sslsniff.core import events
from sslsniff.core.events import NotedSend, TlsSocket, TlsStart
from sslsniff.core.handshakes import SocketEnding
from sslsniff.core.model import Address, Direction
from tests.unit.capture.tls_sockets import tls_socket

PID = 4_194_305  # none that runs
_NAMES: dict[int, str] = {}
READ, WRITE = Direction.READ, Direction.WRITE
LOCAL, REMOTE = Address("10.0.0.1", 50000), Address("10.0.0.2", 443)
HELLO = NotedSend(bytes((22, 3, 1, 0, 200, 1)) + bytes(10), 205, 0)
DATA = NotedSend(b"\x17\x03\x03\x00\x80" + bytes(11), 133, 0)


class Kernel:
    """The kernel's table of TLS sockets, from which all have gone."""

    def tls_socket(self, sock: int) -> None:
        return None

    def __init__(self, left_out: int = 0) -> None:
        self._left_out = left_out

    def unchecked_sockets(self) -> int:
        return 0

    def left_out(self) -> int:
        return self._left_out

    def open_tls_sockets(self) -> Iterator[tuple[int, memoryview]]:
        return iter(())


def tls(
    sock: int, *sends: NotedSend, start: TlsStart = TlsStart.JOINED, has_ended: bool = False
) -> TlsSocket:
    return tls_socket(
        time_ns=sock,
        socket=sock,
        pid=PID,
        start=start,
        sends=sends,
        local=LOCAL,
        remote=REMOTE,
        ending=SocketEnding.CLOSED if has_ended else SocketEnding.UNKNOWN,
        has_ended=has_ended,
    )


def opened(connection: int, half: Direction | None = None) -> events.Opened:
    return events.Opened(0, PID, connection, PID, 0, "client", 1, None, True, half=half)


def addresses(connection: int, sock: int) -> events.Addresses:
    return events.Addresses(0, connection, LOCAL, REMOTE, sock)


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([tls(1, DATA)], 1),
        ([tls(1, DATA), tls(1, DATA)], 1),  # reported after its first sends, and at its end
        ([tls(1, DATA), tls(2, DATA)], 2),
        ([tls(1)], 0),
        # The socket of a probed connection is not known: it may be this one.
        ([opened(7), tls(1, DATA)], 0),
        ([opened(7), tls(1, DATA), tls(2, DATA)], 1),
        ([opened(7), addresses(7, 5), tls(1, DATA)], 1),
        # Two probed connections cannot have one socket: one of them has another.
        ([opened(7), addresses(7, 5), opened(8), addresses(8, 5), tls(1, DATA)], 0),
        ([opened(7), opened(7), addresses(7, 5), tls(1, DATA)], 1),  # announced again
        (
            [
                *(opened(7), addresses(7, 5), events.Closed(0, 7, 1, 1)),
                *(opened(8), addresses(8, 5), tls(1, DATA)),
            ],
            1,
        ),
        # Older than the capture, and seen: its socket was known before the first send.
        ([opened(7), addresses(7, 1), tls(1, DATA)], 0),
        ([opened(7), addresses(7, 1), events.Closed(0, 7, 1, 1), tls(1, DATA)], 0),
        ([opened(7, READ), addresses(7, 1), tls(1, DATA)], 0),
        # A later connection on a socket at the same address.
        ([opened(7), addresses(7, 1), tls(1, HELLO, DATA, DATA, start=TlsStart.CLIENT_HELLO)], 1),
        # Two halves are one connection.
        ([opened(7, READ), opened(8, WRITE), tls(1, DATA), tls(2, DATA)], 1),
    ],
)
def test_what_counts(records: list[events.Record], expected: int) -> None:
    unprobed = UnprobedLibraries(Scope(), _NAMES.get)
    unseen = UnseenTls(Kernel(), unprobed, lambda _: True, 0, Handshakes([], {}), 0)
    for record in records:
        unseen.handle(record)
    unseen.finish()
    assert sum(each.connections for each in unprobed.sums()) == expected
    if expected:
        [line] = unprobed.new_lines()
        assert line.startswith(f"not probed: TLS in client[{PID}] (client): no probe saw it")
        assert "to 10.0.0.2:443)" in line


def test_cgroups_that_are_not_watched() -> None:
    unprobed = UnprobedLibraries(Scope(), _NAMES.get)
    unseen = UnseenTls(Kernel(), unprobed, lambda _: False, 0, Handshakes([], {}), 0)
    unseen.handle(tls(1, DATA))
    unseen.finish()
    assert unprobed.sums() == []


def test_sampling_leaves_out_what_may_be_seen() -> None:
    """A connection that is older than the capture may be one that sampling left out."""
    unprobed = UnprobedLibraries(Scope(), _NAMES.get)
    unseen = UnseenTls(Kernel(left_out=1), unprobed, lambda _: True, 0, Handshakes([], {}), 0)
    unseen.handle(tls(1, DATA))
    unseen.handle(tls(2, HELLO, DATA, DATA, start=TlsStart.CLIENT_HELLO))
    unseen.finish()
    assert [each.connections for each in unprobed.sums()] == [1]


def test_handshakes_are_apart() -> None:
    unprobed = UnprobedLibraries(Scope(), _NAMES.get)
    handshakes = Handshakes([], {})
    unseen = UnseenTls(Kernel(), unprobed, lambda _: True, 0, handshakes, 0)
    unseen.handle(tls(1, HELLO, start=TlsStart.CLIENT_HELLO))  # after its first sends
    unseen.poll()
    assert [*handshakes.drain(is_over=True)] == []
    unseen.handle(tls(1, HELLO, start=TlsStart.CLIENT_HELLO, has_ended=True))
    unseen.finish()
    [ended] = handshakes.drain(is_over=True)
    assert (ended.pid, ended.remote, unprobed.sums()) == (PID, REMOTE, [])
    assert [*unseen.lines()] == []


@pytest.mark.parametrize("start", [TlsStart.SERVER_HELLO, TlsStart.HELLO_RECEIVED])
def test_peer_of_a_server(start: TlsStart) -> None:
    assert peer_of(tls(1, start=start)) == "from 10.0.0.2:443 to 10.0.0.1:50000"
