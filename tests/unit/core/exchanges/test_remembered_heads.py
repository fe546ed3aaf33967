"""What is remembered of heads, for the whole process, stays below what the modules state."""

import io
import re
import tracemalloc
from collections.abc import Callable, Iterator
from types import ModuleType

import pytest

from sslsniff.core.exchanges.exchange_builder import ExchangeBuilder
from sslsniff.core.model import Chunk, Connection, Direction
from sslsniff.core.process import Process
from sslsniff.decoders.http1 import known_heads
from sslsniff.decoders.http2 import heads
from sslsniff.decoders.messages import Side
from sslsniff.forms.json.json_lines import JsonSink
from tests.unit.decoders.http2_wires import HELLO
from tests.unit.decoders.wires import frame

pytestmark = pytest.mark.heavy

Passed = Iterator[tuple[Direction, bytes]]

EXCHANGES = 1000
VALUE = b"\x01" * 27  # six times as long in JSON


def http1() -> Passed:
    """As many requests and responses as are remembered, as long as these may be."""
    for number in range(EXCHANGES):
        fields = b"".join(b"n%02d: %s%04d\r\n" % (at, VALUE, number) for at in range(26))
        yield Direction.WRITE, b"GET / HTTP/1.1\r\n" + fields + b"\r\n"
        yield Direction.READ, b"HTTP/1.1 204 No Content\r\n" + fields + b"\r\n"


def http2() -> Passed:
    """Half as many, as both sides' headers are remembered together."""
    yield Direction.WRITE, HELLO
    for number in range(EXCHANGES // 2):
        for direction, first in (Direction.WRITE, b"\x82\x84\x87"), (Direction.READ, b"\x89"):
            values = [b"%s%s%04d" % (VALUE[5:], direction.value[:1].encode(), number)] * 31
            fields = (b"\0\x03n%02d%c%s" % (at, len(v), v) for at, v in enumerate(values))
            yield direction, frame(1, 5, 2 * number + 1, first + b"".join(fields))


@pytest.mark.parametrize(
    ("module", "make"), [(known_heads, http1), (heads, http2)], ids=["http/1.1", "http/2"]
)
def test_what_is_remembered_is_bounded(module: ModuleType, make: Callable[[], Passed]) -> None:
    """The worst heads, of which was asked what a line of JSON needs."""
    found = re.search(r"about (\d+) MiB", module.__doc__ or "")
    assert found is not None
    stated = int(found[1]) << 20
    out = io.BytesIO()
    builder = ExchangeBuilder([JsonSink(out)])
    connection = Connection("7-1", Process(7, "demo"), "openssl", Side.CLIENT, True, 0)
    builder.opened(connection, 0)
    tracemalloc.start()
    try:
        for direction, data in make():
            builder.chunk(Chunk(connection, direction, 1, 70, 0, data))
            out.seek(0)  # the lines are nobody's
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert builder.open_exchanges() == []
    # What other tests left is forgotten on the way: at least a half of this is there at once.
    assert stated // 4 < most < stated
