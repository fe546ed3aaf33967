"""Several connections between the same two addresses at a time: both ends watched, TLS in TLS."""

from pathlib import Path

import pytest

from sslsniff.core.model import Connection
from sslsniff.core.process import Process
from sslsniff.decoders.messages import Side
from tests.unit.captures import (
    READ,
    WRITE,
    Step,
    Taker,
    plaintext,
    replay,
    tshark,
    tshark_fields,
)

ASKED = b"GET /%d HTTP/1.1\r\nHost: localhost\r\n\r\n"
ANSWERED = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n%02d"
EXCHANGES = 5
SERVER_PORT = 8443
STRIDE = 7919


def steps(side: Side) -> list[Step]:
    """Return what passes at one end."""
    out, back = (WRITE, READ) if side is Side.CLIENT else (READ, WRITE)
    both = ((out, ASKED), (back, ANSWERED))
    return [(way, text % number) for number in range(EXCHANGES) for way, text in both]


def view(taker: Taker, side: Side, port: int, pid: int) -> Connection:
    """Open a connection whose client has ``port``, seen by the process at ``side``."""
    connection = taker.open(role=side, process=Process(pid, side.value, 0))
    ends = {Side.CLIENT: connection.local, Side.SERVER: connection.remote}
    client = ends[side]
    assert client is not None
    if side is Side.CLIENT:
        connection.local = client._replace(port=port)
    else:
        connection.remote = client._replace(port=port)
    return connection


def pass_in_turn(taker: Taker, *views: tuple[Connection, Side]) -> None:
    for number in range(2 * EXCHANGES):
        for connection, side in views:
            taker.pass_steps(connection, steps(side)[number : number + 1])


@pytest.mark.heavy
@pytest.mark.parametrize("layout", ["null-tls", "plain"])
@pytest.mark.parametrize("kind", ["pcap", "pcapng"])
def test_each_view_is_a_connection_of_its_own(tmp_path: Path, kind: str, layout: str) -> None:
    path = tmp_path / f"both.{kind}"
    taker = Taker(path, kind, layout)
    client, server = view(taker, Side.CLIENT, 50000, 11), view(taker, Side.SERVER, 50000, 22)
    pass_in_turn(taker, (server, Side.SERVER), (client, Side.CLIENT))
    taker.end(client)
    taker.end(server)
    taker.close()

    asked = tshark_fields(path, "tcp.stream", "http.request.uri", only="http.request")
    assert sorted(asked) == [
        [str(stream), f"/{number}"] for stream in range(2) for number in range(EXCHANGES)
    ]
    assert tshark(path, "-Y", "_ws.malformed || tcp.analysis.flags") == ""


@pytest.mark.parametrize("port", [50000, SERVER_PORT - STRIDE])
def test_captures_read_back_have_the_real_ports(tmp_path: Path, port: int) -> None:
    """Also where the next port to try for the second view is the server's, on the same host."""
    path = tmp_path / "both.pcapng"
    taker = Taker(path)
    client, server = view(taker, Side.CLIENT, port, 11), view(taker, Side.SERVER, port, 22)
    pass_in_turn(taker, (server, Side.SERVER), (client, Side.CLIENT))
    taker.close()

    first, second = replay(path)
    for seen, connection in ((first, server), (second, client)):
        assert seen.connection.process.pid == connection.process.pid
        assert seen.connection.local == connection.local
        assert seen.connection.remote == connection.remote
    assert plaintext(second, WRITE) == plaintext(first, READ)
    assert plaintext(second, READ) == plaintext(first, WRITE)
    assert plaintext(first, READ) == b"".join(ASKED % number for number in range(EXCHANGES))


@pytest.mark.heavy
def test_only_what_is_open_keeps_its_ports(tmp_path: Path) -> None:
    """Who comes when the others have ended has the real port; so has the first of several."""
    path = tmp_path / "ends.pcapng"
    taker = Taker(path)
    for _ in range(2):
        views = [view(taker, Side.CLIENT, 50000, pid) for pid in (1, 2, 3)]
        pass_in_turn(taker, *((each, Side.CLIENT) for each in views))
        for each in views:
            taker.end(each)
    taker.close()
    clients = [
        int(port)
        for (port,) in tshark_fields(
            path, "tcp.srcport", only="tcp.flags.syn == 1 && tcp.flags.ack == 0"
        )
    ]
    assert clients[0] == clients[3] == 50000
    assert len(set(clients[:3])) == len(set(clients[3:])) == 3
    found = [seen.connection for seen in replay(path)]
    assert [each.local.port for each in found if each.local] == [50000] * 6


@pytest.mark.tools
def test_moved_port_of_one_is_the_real_one_of_the_next(tmp_path: Path) -> None:
    path = tmp_path / "taken.pcapng"
    taker = Taker(path)
    pass_in_turn(
        taker,
        *((view(taker, side, 50000, 1), side) for side in (Side.CLIENT, Side.SERVER)),
        (view(taker, Side.CLIENT, 50000 + STRIDE, 3), Side.CLIENT),
    )
    taker.close()
    assert len({row[0] for row in tshark_fields(path, "tcp.stream", only="http")}) == 3
    ports = [seen.connection.local.port for seen in replay(path) if seen.connection.local]
    assert ports == [50000, SERVER_PORT, 50000 + STRIDE]
