"""A server of files over HTTP/2: ``stall_server PORT``. GET /files/NAME?bytes=N has N bytes."""

import asyncio
import contextlib
import sys
import urllib.parse

import h2.config
import h2.connection
import h2.events

from docs.stories.system import server_tls

_CHUNK_BYTES = 16_384


class Connection(asyncio.Protocol):
    """One client. It sends as much of each file as the windows of flow control allow."""

    def __init__(self) -> None:
        self._h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        self._left: dict[int, int] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the settings."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._h2.initiate_connection()
        transport.write(self._h2.data_to_send())

    def data_received(self, data: bytes) -> None:
        """Answer requests, and go on with what waits."""
        for event in self._h2.receive_data(data):
            if isinstance(event, h2.events.RequestReceived):
                headers = dict(event.headers or [])
                query = urllib.parse.urlsplit(headers[b":path"].decode()).query
                size = int(urllib.parse.parse_qs(query)["bytes"][0])
                assert event.stream_id is not None
                head = [(":status", "200"), ("content-length", str(size))]
                self._h2.send_headers(event.stream_id, head)
                self._left[event.stream_id] = size
        self._send()

    def _send(self) -> None:
        moved = True
        while moved:
            moved = False
            for stream, left in [*self._left.items()]:
                window = self._h2.local_flow_control_window(stream)
                if size := min(left, window, _CHUNK_BYTES):
                    moved = True
                    self._left[stream] -= size
                    self._h2.send_data(stream, bytes(size), end_stream=size == left)
                    if size == left:
                        del self._left[stream]
        self._transport.write(self._h2.data_to_send())


async def main() -> None:
    """Serve."""
    tls = server_tls()
    tls.set_alpn_protocols(["h2"])
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Connection, "127.0.0.1", int(sys.argv[1]), ssl=tls)
    with contextlib.suppress(asyncio.CancelledError):
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
