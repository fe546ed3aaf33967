"""HTTP/2 frames of a real server: windows, a stall while it lasts, what all came to."""

import select
import socket
import ssl
import time

import h2.connection
from h2.events import DataReceived, StreamEnded
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
        stream = self.state.get_next_available_stream_id()
        fields = {":method": "GET", ":scheme": "https", ":authority": "localhost"}
        self.state.send_headers(stream, [*fields.items(), (":path", f"/bytes/{size}")], True)
        self.flush()
        return stream

    def flush(self) -> None:
        self.socket.sendall(self.state.data_to_send())

    def receive(self, stream: int, size: int) -> int:
        """Receive until ``size`` bytes of the body have come, or its end."""
        received = 0
        while received < size:
            assert self.socket.pending() or select.select([self.socket], [], [], PATIENCE_S)[0]
            for event in self.state.receive_data(self.socket.recv(65536)):
                if isinstance(event, DataReceived) and event.stream_id == stream:
                    received += len(event.data)
                elif isinstance(event, StreamEnded) and event.stream_id == stream:
                    return received
            self.flush()
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
