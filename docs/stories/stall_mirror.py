"""Downloads four files at once over one HTTP/2 connection, again and again: ``stall_mirror PORT``.

One of its files goes through a slow virus scanner; its bytes are given back to the windows of flow
control only after that.
"""

import asyncio
import sys

import h2.config
import h2.connection
import h2.events

from docs.stories.system import client_tls

FILES = {"packages.xz": 20_000, "images.tar": 400_000, "index.html": 90_000, "notes.txt": 60_000}
SCANNED = "images.tar"
_SCAN_S = 2.5
_PAUSE_S = 3.0
_READ_BYTES = 65_536


async def mirror(port: int) -> None:
    """Download each file once."""
    tls = client_tls()
    tls.set_alpn_protocols(["h2"])
    reader, writer = await asyncio.open_connection("localhost", port, ssl=tls)
    http2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
    http2.initiate_connection()
    names = {}
    for name, size in FILES.items():
        stream = http2.get_next_available_stream_id()
        names[stream] = name
        path = f"/files/{name}?bytes={size}"
        authority = f"localhost:{port}"
        head = [
            (":method", "GET"),
            (":scheme", "https"),
            (":authority", authority),
            (":path", path),
        ]
        http2.send_headers(stream, head, end_stream=True)
    writer.write(http2.data_to_send())

    def give_back(stream: int, size: int) -> None:
        http2.acknowledge_received_data(size, stream)
        writer.write(http2.data_to_send())

    loop = asyncio.get_running_loop()
    while names:
        for event in http2.receive_data(await reader.read(_READ_BYTES)):
            if isinstance(event, h2.events.DataReceived):
                assert event.stream_id is not None
                size = event.flow_controlled_length or 0
                scanned = names.get(event.stream_id) == SCANNED
                loop.call_later(_SCAN_S if scanned else 0, give_back, event.stream_id, size)
            elif isinstance(event, h2.events.StreamEnded):
                del names[event.stream_id or 0]
        writer.write(http2.data_to_send())
    writer.close()
    await writer.wait_closed()


async def main() -> None:
    """Download until the end."""
    while True:
        await mirror(int(sys.argv[1]))
        await asyncio.sleep(_PAUSE_S)


if __name__ == "__main__":
    asyncio.run(main())
