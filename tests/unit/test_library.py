"""The library: what ``from sslsniff import ...`` has."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import sslsniff
from sslsniff import (
    Address,
    CaptureFileError,
    Chunk,
    Connection,
    Direction,
    LossCause,
    Process,
    Side,
    SslsniffError,
    decode,
)

HOUSE = Path(__file__).parent.parent.parent
CAPTURE = HOUSE / "pcaps/http1-keep-alive.pcapng"

REQUEST = b"POST /%d HTTP/1.1\r\nHost: example.org\r\nContent-Length: 3\r\n\r\nabc"
RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


def connection(number: int, role: Side | None = Side.CLIENT) -> Connection:
    return Connection(f"7-{number}", Process(7, "demo"), "mine", role, True, 0)


def chunk(on: Connection, direction: Direction, data: bytes, missing: int = 0) -> Chunk:
    cause = LossCause.NOT_CAPTURED if missing else None
    return Chunk(on, direction, 1_000_000, 7, 0, data, missing, cause)


def example() -> tuple[str, str]:
    """Return the example of docs/library.md and its output."""
    text = (HOUSE / "docs/library.md").read_text("utf-8")
    found = re.search(r"```python\n(.*?)```\n\n```\n(.*?)```", text, re.DOTALL)
    assert found is not None
    return found[1], found[2]


@pytest.mark.slow
def test_the_example_prints_what_it_says() -> None:
    code, output = example()
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=HOUSE, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == (output, "")


@pytest.mark.slow
def test_the_readmes_example_is_typed(tmp_path: Path) -> None:
    code, _ = example()
    user = tmp_path / "user.py"
    user.write_text(
        f"{code}\n    reveal_type(exchange)\n    reveal_type(exchange.connection.client)\n"
        "import sslsniff\nsslsniff.decode(7)\n"
    )
    mypy = [sys.executable, "-m", "mypy", "--strict", f"--cache-dir={tmp_path}", str(user)]
    done = subprocess.run(mypy, cwd=tmp_path, capture_output=True, text=True)
    assert re.findall(r'Revealed type is "(.*?)"', done.stdout) == [
        "sslsniff.core.model.Exchange",
        "tuple[str, int, fallback=sslsniff.core.model.Address] | None",
    ]
    [error] = [line for line in done.stdout.splitlines() if " error: " in line]
    assert 'incompatible type "int"' in error


def test_it_is_imported_when_it_is_used() -> None:
    code = "import sys, sslsniff; print([m for m in sys.modules if m.startswith('sslsniff.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_every_name_is_there() -> None:
    for name in sslsniff.__all__:
        assert getattr(sslsniff, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        sslsniff.nothing  # noqa: B018


def test_a_file_is_decoded_as_it_is_read() -> None:
    exchanges = decode(CAPTURE)
    first = next(exchanges)
    assert first.request is not None
    assert first.request.url.endswith("/hello")
    assert len(list(exchanges)) == 2
    assert len(list(decode(str(CAPTURE)))) == 3


def test_what_is_no_capture_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(CaptureFileError, match="no-such-file"):
        decode(tmp_path / "no-such-file")
    other = tmp_path / "other"
    other.write_text("hello")
    with pytest.raises(SslsniffError, match="not a capture file"):
        decode(other)


def test_a_cut_file_is_warned_of(tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcapng"
    cut.write_bytes(CAPTURE.read_bytes()[:-50])
    with pytest.warns(UserWarning, match="cut off"):
        exchanges = list(decode(cut))
    assert len(exchanges) == 3


def test_chunks_of_several_connections() -> None:
    first, second = connection(1), connection(2, Side.SERVER)
    exchanges = decode(
        [
            chunk(first, Direction.WRITE, REQUEST % 1),
            chunk(second, Direction.READ, REQUEST % 2),
            chunk(second, Direction.WRITE, RESPONSE),
            chunk(first, Direction.READ, RESPONSE),
        ]
    )
    targets = [each.request.target for each in exchanges if each.request]
    assert targets == ["/2", "/1"]


def test_exchanges_come_before_their_chunks_end() -> None:
    on = connection(1)
    asked = 0

    def chunks() -> Iterator[Chunk]:
        nonlocal asked
        for asked in range(1, 10):
            yield chunk(on, Direction.WRITE, REQUEST % asked)
            yield chunk(on, Direction.READ, RESPONSE)

    exchanges = decode(chunks())
    for number in range(1, 4):
        assert next(exchanges).connection is on
        assert asked == number


def test_where_chunks_end_connections_do() -> None:
    on = connection(1)
    on.remote = Address("127.0.0.1", 443)
    endless = b"HTTP/1.1 200 OK\r\n\r\nuntil the end"
    [whole] = decode(
        [chunk(on, Direction.WRITE, REQUEST % 1), chunk(on, Direction.READ, endless)],
        body_limit_bytes=5,
    )
    assert whole.response is not None
    assert (whole.error, whole.response.body.data, whole.response.body.size) == (None, b"until", 13)
    [unanswered] = decode([chunk(on, Direction.WRITE, REQUEST % 1)])
    assert unanswered.error == "connection closed"


def test_missing_bytes_are_counted() -> None:
    on = connection(1)
    [exchange] = decode(
        [
            chunk(on, Direction.WRITE, REQUEST % 1),
            chunk(on, Direction.READ, RESPONSE[:-5]),
            chunk(on, Direction.READ, b"", missing=4),
            chunk(on, Direction.READ, b"o"),
        ]
    )
    assert exchange.missing_bytes == 4
