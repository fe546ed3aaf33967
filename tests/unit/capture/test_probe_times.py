"""Which calls of a TLS connection probes could have seen, by the times of its sends."""

import pytest

from sslsniff.capture.unseen.probe_times import Seen, seen
from sslsniff.core.events import NOTED_SENDS, NotedSend, TlsSocket, TlsStart
from tests.unit.capture.tls_sockets import tls_socket

SECOND = 1_000_000_000
BEGAN = 100 * SECOND
LATER = BEGAN + 10 * SECOND
POSSIBLE, TOO_EARLY, BEFORE = Seen.POSSIBLE, Seen.TOO_EARLY, Seen.BEFORE
JOINED, HELLO = TlsStart.JOINED, TlsStart.CLIENT_HELLO


def data(time_ns: int) -> NotedSend:
    return NotedSend(b"\x17\x03\x03\x00\x80" + bytes(11), 133, 0, time_ns)


def close_notify(time_ns: int) -> NotedSend:
    return NotedSend(b"\x17\x03\x03\x00\x13" + bytes(11), 24, 0, time_ns)


def socket(
    *sends: NotedSend,
    start: TlsStart = JOINED,
    began_ns: int = 0,
) -> TlsSocket:
    """Return a socket; a client's has sent its part of a handshake, too."""
    hello = NotedSend(bytes((22, 3, 1, 0, 200, 1)) + bytes(10), 205, 0, began_ns)
    finished = NotedSend(b"\x17\x03\x03\x00\x35" + bytes(11), 58, 0, began_ns)
    before = () if start is JOINED else (hello, finished)
    return tls_socket(time_ns=began_ns, start=start, sends=(*before, *sends))


@pytest.mark.parametrize(
    ("sends", "without", "probed"),
    [
        ([data(BEGAN - 1)], BEFORE, BEFORE),
        ([data(BEGAN - 1), close_notify(LATER)], BEFORE, BEFORE),
        # The call may have been under way as the probes came.
        ([data(BEGAN + 1)], POSSIBLE, BEFORE),
        ([data(BEGAN - 1), data(LATER)], POSSIBLE, POSSIBLE),
        # What followed was not noted; with probes it was seen.
        ([data(BEGAN - 1)] * NOTED_SENDS, POSSIBLE, BEFORE),
    ],
)
def test_before_the_capture(sends: list[NotedSend], without: Seen, probed: Seen) -> None:
    assert seen(socket(*sends), BEGAN, None) is without
    for probed_ns in (0, BEGAN - 5):
        assert seen(socket(*sends), BEGAN, probed_ns) is probed


@pytest.mark.parametrize("probed_ns", [None, 0, BEGAN - 5])
def test_a_connection_that_began_in_the_capture(probed_ns: int | None) -> None:
    """All of its calls began with probes in place."""
    found = socket(data(BEGAN + 2), start=HELLO, began_ns=BEGAN + 1)
    assert seen(found, BEGAN, probed_ns) is POSSIBLE


def test_nothing_ran_before_a_command() -> None:
    assert seen(socket(data(1)), 0, 0) is POSSIBLE


@pytest.mark.parametrize(
    ("began_ns", "sent_ns", "expected"),
    [
        (BEGAN + 1, LATER - 1, TOO_EARLY),
        (BEGAN + 1, LATER + 1, TOO_EARLY),  # by a call that was under way
        (BEGAN + 1, LATER + 2 * SECOND, POSSIBLE),
        (LATER + 1, LATER + 2, POSSIBLE),
        (BEGAN - 2, BEGAN - 1, BEFORE),
    ],
)
def test_a_library_that_was_loaded_later(began_ns: int, sent_ns: int, expected: Seen) -> None:
    found = socket(data(sent_ns), start=HELLO, began_ns=began_ns)
    assert seen(found, BEGAN, LATER) is expected
