"""HTTP/2 frames of a real server: windows, a stall while it lasts, what all came to."""

import select
import socket
import ssl
import time
from collections.abc import Iterable

import h2.connection
from h2.events import DataReceived, Event, StreamEnded
from h2.settings import SettingCodes

from tests.live.checks import Sniff
from tests.workload.processes import PATIENCE_S
from tests.workload.servers import Certificate, Server

WINDOW = 1000
BODY = 5000


class Client:
    """A client that opens no window by itself."""

    def __init__(self, server: Server, certificate: Certificate) -> None:
        context = ssl.create_default_context(cafile=str(certificate.certificate))
        context.set_alpn_protocols(["h2"])
        plain = socket.create_connection(("127.0.0.1", server.port))
        self.socket = context.wrap_socket(plain, server_hostname="localhost")
        self.state = h2.connection.H2Connection()
        self.state.initiate_connection()
        self.state.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: WINDOW})

    def ask(self, size: int) -> int:
        return self.request("GET", f"/bytes/{size}", is_whole=True)

    def request(self, method: str, path: str, *, is_whole: bool) -> int:
        stream = self.state.get_next_available_stream_id()
        fields = {":method": method, ":scheme": "https", ":authority": "localhost"}
        self.state.send_headers(stream, [*fields.items(), (":path", path)], is_whole)
        self.flush()
        return stream

    def upload(self, stream: int, size: int, *, is_whole: bool = False) -> None:
        """Send a part of a body, which the windows must allow."""
        for at in range(0, size, 16384):
            self.state.send_data(
                stream, bytes(min(16384, size - at)), is_whole and at + 16384 >= size
            )
        self.flush()

    def flush(self) -> None:
        self.socket.sendall(self.state.data_to_send())

    def events(self) -> Iterable[Event]:
        """Wait until something comes, and return what."""
        assert self.socket.pending() or select.select([self.socket], [], [], PATIENCE_S)[0]
        events = self.state.receive_data(self.socket.recv(65536))
        self.flush()
        return events

    def receive(self, stream: int, size: int) -> int:
        """Receive until ``size`` bytes of the body have come, or its end."""
        received = 0
        while received < size:
            for event in self.events():
                if isinstance(event, DataReceived) and event.stream_id == stream:
                    received += len(event.data)
                elif isinstance(event, StreamEnded) and event.stream_id == stream:
                    return received
        return received


def test_stall(server: Server, certificate: Certificate, sniff: Sniff) -> None:
    with sniff("--pid", str(server.pid), "--frames") as sniffer:
        began = time.monotonic()
        client = Client(server, certificate)
        stream = client.ask(BODY)
        assert client.receive(stream, WINDOW) == WINDOW
        sniffer.until(1, "wait")  # though nothing passes any more
        client.state.increment_flow_control_window(BODY, stream)
        client.flush()
        assert client.receive(stream, BODY) == BODY - WINDOW
        most_ms = 1000 * (time.monotonic() - began)
        client.socket.close()
        sniffer.until(2, "frame_totals")
        captured = sniffer.stop()

    lasting, over = captured.of("wait")
    for wait in (lasting, over):
        assert (wait["stream"], wait["direction"]) == (stream, "write")
    assert (lasting["over"], over["over"]) == (False, True)
    assert 1000 <= lasting["waited_ms"] <= over["waited_ms"] <= most_ms

    windows = [
        each["stream_window"]
        for each in captured.of("frame")
        if each["stream"] == stream and "stream_window" in each
    ]
    assert windows[:2] == [0, BODY]
    assert windows[-1] == WINDOW
    read, written = captured.of("frame_totals")
    assert (read["direction"], written["direction"]) == ("read", "write")
    assert (read["streams"], written["streams"]) == (1, 0)
    assert written["connection_window"] == 65535 - BODY


def test_one_stream(server: Server, certificate: Certificate, sniff: Sniff) -> None:
    with sniff("--pid", str(server.pid), "--frames", "--stream", "3") as sniffer:
        client = Client(server, certificate)
        for _ in range(3):
            stream = client.ask(100)
            client.receive(stream, 100)
        client.socket.close()
        sniffer.until(2, "frame_totals")
        captured = sniffer.stop()
    assert {each["stream"] for each in captured.of("frame")} == {3}
    assert [each["stream"] for each in captured.exchanges] == [3]
    assert captured.summary["exchanges"] == 3


def test_the_stream_that_is_not_read_is_named(
    server: Server, certificate: Certificate, sniff: Sniff
) -> None:
    """It holds the connection's window; two other uploads wait for it."""
    with sniff("--pid", str(server.pid), "--frames") as sniffer:
        client = Client(server, certificate)
        unread = client.request("POST", "/unread", is_whole=False)
        client.upload(unread, 65_000)
        others = [client.request("POST", "/echo", is_whole=False) for _ in range(2)]
        client.upload(others[0], 535)
        # The echo waits for the rest, so nothing comes: the client may not send it.
        sniffer.until(1, "wait")
        client.request("GET", "/read", is_whole=True)
        while not client.state.local_flow_control_window(others[1]):
            client.events()
        client.upload(others[1], 300, is_whole=True)
        client.receive(others[1], 300)
        client.socket.close()
        sniffer.until(2, "frame_totals")
        captured = sniffer.stop()

    [lasting, *_] = captured.of("wait")
    assert (lasting["stream"], lasting["direction"], lasting["over"]) == (0, "read", False)
    assert lasting["text"] == (
        f"the server does not read stream {unread} POST /unread (65,000 B of the connection's"
        f" window of 65,535 B are not given back); streams {others[0]} POST /echo and {others[1]}"
        " POST /echo wait for it"
    )
    assert (lasting["holder"], lasting["held_bytes"]) == (unread, 65_000)
    assert lasting["requests"] == {
        str(stream): f"POST /{path}"
        for stream, path in ((unread, "unread"), *((each, "echo") for each in others))
    }
    totals = [each["stream_bytes"] for each in captured.of("frame") if "stream_bytes" in each]
    assert 300 in totals
