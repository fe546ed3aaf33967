"""A server of HTTP/3, by aioquic: answers each request with its path.

    python http3_server.py CERTIFICATE KEY

Writes its UDP port.
"""

import asyncio
import sys

from aioquic.asyncio import QuicConnectionProtocol, serve
from aioquic.h3.connection import H3Connection
from aioquic.h3.events import HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ProtocolNegotiated, QuicEvent


class Answers(QuicConnectionProtocol):  # type: ignore[misc]  # aioquic is not in this environment
    """One connection."""

    http: H3Connection | None = None

    def quic_event_received(self, event: QuicEvent) -> None:
        """Answer the requests in an event."""
        if isinstance(event, ProtocolNegotiated):
            self.http = H3Connection(self._quic)
        for each in self.http.handle_event(event) if self.http is not None else ():
            if self.http is not None and isinstance(each, HeadersReceived):
                path = dict(each.headers)[b":path"]
                self.http.send_headers(each.stream_id, [(b":status", b"200")])
                self.http.send_data(each.stream_id, path, end_stream=True)
                self.transmit()


async def main() -> None:
    """Serve until the process is ended."""
    configuration = QuicConfiguration(is_client=False, alpn_protocols=["h3"])
    configuration.load_cert_chain(*sys.argv[1:])
    server = await serve("127.0.0.1", 0, configuration=configuration, create_protocol=Answers)
    print(server._transport.get_extra_info("sockname")[1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
