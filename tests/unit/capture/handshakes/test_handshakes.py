"""A socket and a library's error make one event, if they are of one handshake."""

from collections.abc import Sequence
from typing import Any

import pytest

from sslsniff.capture.handshakes import handshakes as handshakes_module
from sslsniff.capture.handshakes.handshakes import Handshakes
from sslsniff.core.events import Failure, HandshakeEnded, NotedSend, Opened, TlsSocket, TlsStart
from sslsniff.core.handshakes import SocketEnding
from sslsniff.core.library_failure import LibraryFailure
from sslsniff.core.model import Address
from sslsniff.decoders.messages import Side
from tests.unit.capture.tls_sockets import tls_socket

LIBRARIES = ["unknown", "openssl"]
FAILURES = {"openssl": lambda error, verified: LibraryFailure("expired", f"{error} {verified}")}
LOCAL, REMOTE = Address("10.0.0.1", 50000), Address("10.0.0.2", 443)
PID, OTHER_PID = 1000, 2000


def random(number: int) -> bytes:
    return bytes([number]) * 32


def hello(number: int) -> bytes:
    """Return the beginning of a record with a ClientHello."""
    return bytes((22, 3, 1, 0, 200, 1, 0, 0, 196, 3, 3)) + random(number)


def socket(number: int, **fields: Any) -> TlsSocket:
    usual: dict[str, Any] = {
        "time_ns": 1_000,
        "socket": number,
        "ended_ns": 5_000,
        "pid": PID,
        "uid": 0,
        "cgroup": 7,
        "local": LOCAL,
        "remote": REMOTE,
        "sends": (NotedSend(hello(number)[:16], 205, 0),),
        "hello": hello(number),
        "ending": SocketEnding.CLOSED,
        "acknowledged": 205,
        "received": 1000,
        "has_ended": True,
    }
    return tls_socket(**(usual | fields))


def failure(number: int, connection: int = 1, **fields: Any) -> Failure:
    opened = Opened(2_000, PID, connection, PID, 0, "client", 1, Side.CLIENT, True)
    usual: dict[str, Any] = {
        "opened": opened,
        "alert": 45,
        "error": 134,
        "verified": 10,
        "has_data": False,
        "is_sure": False,
        "socket": 0,
        "local": None,
        "remote": None,
        "random": random(number) if number else b"",
    }
    return Failure(**(usual | fields))


def joined(*reports: TlsSocket | Failure) -> list[HandshakeEnded]:
    handshakes = Handshakes(LIBRARIES, FAILURES)
    for each in reports:
        if isinstance(each, TlsSocket):
            handshakes.end(each, 9_000)
        else:
            handshakes.fail(each)
    return [*handshakes.drain(is_over=True)]


@pytest.mark.parametrize(
    "reports",
    [
        (failure(1), socket(1)),
        (socket(1), failure(1)),
        (failure(1), failure(1, error=1), socket(1)),  # the first error counts
        (failure(0, socket=1), socket(1)),  # a library that does not tell the random
        (failure(0), socket(1)),  # the only one
        (failure(1), socket(1, hello=b"")),  # a kernel that does not see receives
    ],
)
def test_one_event(reports: Sequence[TlsSocket | Failure]) -> None:
    [event] = joined(*reports)
    assert (event.library, event.local, event.remote) == ("openssl", LOCAL, REMOTE)
    assert (event.began_ns, event.time_ns) == (1_000, 5_000)
    assert (event.facts.sent_alert, event.facts.error) == (45, "134 10")
    assert event.facts.ending is SocketEnding.CLOSED


def test_several_at_once() -> None:
    numbers = range(1, 6)
    reports = [failure(each, connection=each, error=each) for each in numbers]
    events = joined(*reports, *map(socket, reversed(numbers)))
    assert [each.facts.error for each in events] == [f"{each} 10" for each in reversed(numbers)]


@pytest.mark.parametrize(
    "report",
    [
        failure(2),  # another handshake
        failure(0)._replace(opened=failure(0).opened._replace(pid=OTHER_PID)),
        failure(0)._replace(opened=failure(0).opened._replace(role=Side.SERVER)),
        failure(0)._replace(opened=failure(0).opened._replace(time_ns=500)),  # before it began
        failure(0, socket=2, is_sure=True),  # on another socket
        failure(0, socket=1, is_sure=True, remote=LOCAL),  # on a later one at its address
    ],
)
def test_apart(report: Failure) -> None:
    of_socket, of_library = joined(report, socket(1))
    assert (of_socket.library, of_socket.facts.error) == ("unknown", None)
    assert (of_library.library, of_library.facts.error) == ("openssl", "134 10")


@pytest.mark.parametrize(("error", "library"), [(134, "openssl"), (1, "unknown")])
def test_reports_that_fit_two_sockets(error: int, library: str) -> None:
    """They are joined if it does not matter which one is whose."""
    events = joined(failure(0), failure(0, connection=2, error=error), socket(1), socket(2))
    assert [each.library for each in events] == [library, library]


def test_a_later_report_completes_the_first() -> None:
    [event] = joined(
        failure(0, alert=42, error=0, verified=None), failure(1, alert=None), socket(1)
    )
    assert (event.facts.sent_alert, event.facts.error) == (42, "134 10")


@pytest.mark.parametrize(("alert", "count"), [(None, 0), (20, 0), (80, 0), (116, 1), (42, 1)])
def test_a_connection_with_data_is_one_if_the_alert_says_so(alert: int | None, count: int) -> None:
    assert len(joined(failure(1, has_data=True, alert=alert))) == count


def test_a_library_that_only_says_that_it_is_over() -> None:
    handshakes = Handshakes(LIBRARIES, {"openssl": lambda *_: LibraryFailure()})
    handshakes.fail(failure(1, alert=None))
    assert [*handshakes.drain(is_over=True)] == []
    handshakes.end(socket(1), 9_000)
    [event] = handshakes.drain(is_over=True)
    assert event.facts.ending is SocketEnding.CLOSED


def test_a_socket_from_before_the_capture() -> None:
    assert joined(socket(1, start=TlsStart.JOINED)) == []


def test_reports_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    for delay in ("_SOCKET_DELAY_S", "_DELAY_S"):
        monkeypatch.setattr(handshakes_module, delay, 3600)
    handshakes = Handshakes(LIBRARIES, FAILURES)
    handshakes.fail(failure(1))
    handshakes.end(socket(1), 9_000)
    assert [*handshakes.drain()] == []
    assert len([*handshakes.drain(is_over=True)]) == 1


@pytest.mark.parametrize(
    ("report", "later", "count"),
    [
        (failure(1), socket(1), 0),
        (failure(0, socket=1), socket(1), 0),
        # Another connection, whose socket has the address of the one before.
        (failure(0, socket=1), socket(1, time_ns=3_000), 1),
        (failure(1), socket(2), 1),
    ],
)
def test_no_second_event_for_a_report_that_was_released(
    report: Failure, later: TlsSocket, count: int
) -> None:
    handshakes = Handshakes(LIBRARIES, FAILURES)
    handshakes.fail(report)
    assert len([*handshakes.drain(is_over=True)]) == 1
    handshakes.end(later, 9_000)
    assert len([*handshakes.drain(is_over=True)]) == count


def test_memory_is_bounded() -> None:
    handshakes = Handshakes(LIBRARIES, FAILURES)
    for number in range(5000):
        handshakes.fail(failure(0, connection=number))
        handshakes.end(socket(1, socket=number), 9_000)
    assert len([*handshakes.drain()]) >= 2 * (5000 - 4096)
