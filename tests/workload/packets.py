"""Captures of traffic as a network would carry it, made fast and in any number."""

import random
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

from hpack import Encoder

_CLIENT, _SERVER = b"\x0a\0\0\1", b"\x0a\0\0\2"
_SYN, _ACK, _FIN = 2, 16, 1
_EXCHANGES_A_CONNECTION = 100
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"  # RFC 9113 section 3.4
_DATA, _HEADERS, _SETTINGS = 0, 1, 4
_END_STREAM, _END_HEADERS = 1, 4


def small_exchanges(count: int) -> Iterator[bytes]:
    """Yield requests and responses, as a browser and a server send them, with their ACKs."""
    for number in range(count // _EXCHANGES_A_CONNECTION):
        flow = Flow(20_000 + number, 80)
        yield from flow.opened()
        for n in range(_EXCHANGES_A_CONNECTION):
            request = f"GET /items/{n} HTTP/1.1\r\nHost: example.org\r\nAccept: */*\r\n\r\n"
            body = f'{{"item": {n}}}'
            response = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n{body}"
            yield flow.packet(0, request.encode())
            yield flow.packet(1, response.encode())
            yield flow.packet(0)
        yield from flow.closed()


def interleaved(connections: int, exchanges: int) -> Iterator[bytes]:
    """Yield the packets of connections that are open at the same time, in a random order.

    Each has so many ``exchanges``, of two packets with plaintext each; every second one is HTTP/2,
    whose headers need those before.
    """
    order = random.Random(1)
    flows = [Flow(1024 + number, 80) for number in range(connections)]
    turns = [
        iter(_http2(flow, exchanges) if number % 2 else _http1(flow, exchanges))
        for number, flow in enumerate(flows)
    ]
    while turns:
        number = order.randrange(len(turns))
        packets = next(turns[number], None)
        if packets is None:
            turns[number] = turns[-1]
            turns.pop()
        else:
            yield from packets


def _http1(flow: "Flow", exchanges: int) -> Iterator[list[bytes]]:
    yield [*flow.opened()]
    for n in range(exchanges):
        request = f"GET /items/{n} HTTP/1.1\r\nHost: example.org\r\nAccept: */*\r\n\r\n"
        yield [flow.packet(0, request.encode())]
        body = f'{{"item": {n}}}'
        response = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n{body}"
        yield [flow.packet(1, response.encode())]
    yield [*flow.closed()]


def _http2(flow: "Flow", exchanges: int) -> Iterator[list[bytes]]:
    settings = _frame(_SETTINGS, 0, 0, b"")
    yield [*flow.opened()]
    yield [flow.packet(0, _PREFACE + settings), flow.packet(1, settings)]
    asks, answers = Encoder(), Encoder()
    for n in range(exchanges):
        stream = 2 * n + 1
        request = asks.encode(
            [
                *((":method", "GET"), (":scheme", "http"), (":authority", "example.org")),
                *((":path", f"/items/{n % 50}"), ("x-number", str(n))),
            ]
        )
        yield [flow.packet(0, _frame(_HEADERS, _END_HEADERS | _END_STREAM, stream, request))]
        body = b'{"item": %d}' % n
        response = answers.encode([(":status", "200"), ("content-length", str(len(body)))])
        head = _frame(_HEADERS, _END_HEADERS, stream, response)
        yield [flow.packet(1, head + _frame(_DATA, _END_STREAM, stream, body))]
    yield [*flow.closed()]


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">IBI", len(payload) << 8 | kind, flags, stream) + payload


class Flow:
    """A TCP connection: makes its packets, Ethernet and IPv4 included."""

    def __init__(self, client_port: int, server_port: int) -> None:
        ports = struct.pack(">HH", client_port, server_port)
        self._ports = ports, ports[2:] + ports[:2]
        self._sent = [1_000, 2_000]

    def opened(self) -> Iterator[bytes]:
        """Yield the packets of its beginning."""
        yield self.packet(0, flags=_SYN)
        yield self.packet(1, flags=_SYN | _ACK)
        yield self.packet(0)

    def closed(self) -> Iterator[bytes]:
        """Yield the packets of its end."""
        yield self.packet(0, flags=_FIN | _ACK)
        yield self.packet(1, flags=_FIN | _ACK)

    def packet(self, side: int, data: bytes = b"", flags: int = _ACK) -> bytes:
        """Return the next packet of the client (``side`` 0) or the server (1)."""
        ips = (_CLIENT + _SERVER, _SERVER + _CLIENT)[side]
        acknowledged = self._sent[1 - side] if flags & _ACK else 0
        numbers = struct.pack(">II", self._sent[side], acknowledged)
        tcp = self._ports[side] + numbers + struct.pack(">BBHHH", 5 << 4, flags, 65_535, 0, 0)
        ip = struct.pack(">BBHHHBBH", 0x45, 0, 40 + len(data), 0, 0, 64, 6, 0) + ips
        self._sent[side] += len(data) + bool(flags & (_SYN | _FIN))
        return bytes(12) + b"\x08\0" + ip + tcp + data


def write_capture(path: Path, packets: Iterable[bytes]) -> None:
    """Write a classic pcap file, a packet each 10 us."""
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 18, 1))
        for number, packet in enumerate(packets):
            seconds, rest = divmod(10 * number, 1_000_000)
            size = len(packet)
            file.write(struct.pack("<IIII", 1_700_000_000 + seconds, rest, size, size) + packet)
