"""The report's table of failed handshakes."""

from pathlib import Path

import pytest

from sslsniff.core.handshakes import UNUSED, HandshakeEnd, HandshakeFacts
from sslsniff.core.model import Address, Connection, Handshake
from sslsniff.core.process import Process
from sslsniff.core.sink import Summary
from sslsniff.decoders.messages import Side
from sslsniff.outputs.report.failed_handshakes import FailedHandshakes
from tests.unit.outputs.report.pages import Parts, sink

SECOND_NS = 1_000_000_000


def failed(
    second: int, text: str = "the server did not answer", kind: str = "timeout"
) -> Handshake:
    connection = Connection("7-2", Process(7, "demo"), "openssl", Side.CLIENT, True, 0)
    connection.sni, connection.remote = "a</script>.test", Address("10.0.0.2", 443)
    end = HandshakeEnd(kind, text, is_failure=kind != UNUSED)
    began_ns = second * SECOND_NS
    return Handshake(connection, began_ns, began_ns + 1, end, HandshakeFacts())


def test_equal_ones_are_a_row() -> None:
    found = FailedHandshakes()
    for second in (1, 3, 2):
        found.add(failed(second))
    found.add(failed(4, "the server reset the TCP connection", "reset"))
    found.add(failed(5, kind=UNUSED))
    first, second = found.object()["rows"]
    assert first == {
        "process": "demo[7]",
        "role": "client",
        "server": "10.0.0.2:443",
        "name": "a</script>.test",
        "failure": "timeout",
        "text": "the server did not answer",
        "count": 3,
        "first_us": 1_000_000,
        "last_us": 2_000_000,
    }
    assert (second["failure"], second["count"]) == ("reset", 1)


@pytest.mark.parametrize("count", [500, 501, 700])
def test_rows_are_bounded(count: int) -> None:
    found = FailedHandshakes()
    for number in range(count):
        found.add(failed(1, f"reason {number}"))
    shown = found.object()
    assert (len(shown["rows"]), shown["left_out"]) == (500, count - 500)


def test_they_are_in_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    with page.open("wb") as file:
        report = sink(file)
        report.handshake(failed(1))
        summary = Summary(0)
        summary.handshakes.add(failed(1))
        report.summary(summary)
        report.close()
    parts = Parts(page.read_bytes())
    [row] = parts.capture["handshakes"]["rows"]
    assert row["name"] == "a</script>.test"
    assert parts.capture["summary"]["failed_handshakes"] == 1
