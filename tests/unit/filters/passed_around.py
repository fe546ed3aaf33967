"""Drives connections through ``--around`` into a capture file, and to a sink of exchanges."""

import io
import tempfile
from collections.abc import Sequence
from pathlib import Path

from sslsniff import decode
from sslsniff.core import events
from sslsniff.core.exchanges.exchange_builder import ExchangeBuilder
from sslsniff.core.flows import Flows
from sslsniff.core.model import Address, Direction, Exchange
from sslsniff.core.sink import Sink, Summary
from sslsniff.decoders.messages import Side
from sslsniff.filters.around import AroundSink
from sslsniff.filters.filters import parse
from sslsniff.outputs.pcap.capture_writer import PcapSink
from tests.unit.captures import Step

HERE, THERE = Address("127.0.0.1", 40000), Address("127.0.0.1", 8443)


class Seen(Sink):
    """Keeps exchanges, and the figures at the end."""

    def __init__(self) -> None:
        self.targets: list[str] = []
        self.totals = Summary()

    def exchange(self, exchange: Exchange) -> None:
        assert exchange.request is not None
        self.targets.append(str(exchange.request.target))

    def summary(self, summary: Summary) -> None:
        self.totals = summary


class Passed:
    """What passes through ``--around`` into a capture file, and to a sink of exchanges."""

    def __init__(
        self,
        count: int,
        expression: str = "~c 500",
        pcap: PcapSink | None = None,
        **options: int,
    ) -> None:
        self.file = io.BytesIO()
        self.pcap, self.seen = pcap or PcapSink(self.file), Seen()
        sinks = [self.pcap, self.seen]
        self.builder = ExchangeBuilder([AroundSink(parse(expression), count, sinks, **options)])
        self.flows = Flows(["openssl"], self.builder)
        self._positions: dict[tuple[int, Direction], int] = {}
        self._now_ns = 1_700_000_000_000_000_000

    def open(self, connection: int, alpn: str | None = None) -> None:
        self._now_ns += 1000
        opened = events.Opened(
            *(self._now_ns, 7, connection, 70, 0, "demo", 0, Side.CLIENT, True), alpn=alpn
        )
        here = Address(HERE.ip, HERE.port + connection)
        self.flows.handle(opened)
        self.flows.handle(events.Addresses(self._now_ns, connection, here, THERE))

    def close(self, connection: int) -> None:
        read, written = (self._positions.get((connection, each), 0) for each in Direction)
        self.flows.handle(events.Closed(self._now_ns, connection, read, written))

    def send(self, connection: int, steps: Sequence[Step]) -> None:
        for direction, data in steps:
            assert isinstance(data, bytes)
            self._now_ns += 1000
            at = self._positions.get((connection, direction), 0)
            self._positions[connection, direction] = at + len(data)
            size = len(data)
            self.flows.handle(events.Data(self._now_ns, 7, connection, direction, at, size, data))

    def finish(self) -> None:
        self.flows.finish()
        self.builder.finish()
        self.pcap.close()

    def read_back(self) -> list[Exchange]:
        with tempfile.NamedTemporaryFile(suffix=".pcapng") as file:
            Path(file.name).write_bytes(self.file.getvalue())
            return list(decode(file.name))
