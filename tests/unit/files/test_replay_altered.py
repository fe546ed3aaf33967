"""Our own captures read back after other tools had them: packets left out, files joined."""

from pathlib import Path

import pytest

from sslsniff.core.losses import LossCause
from tests.unit.captures import (
    LAYOUTS,
    READ,
    REQUEST,
    RESPONSE,
    WRITE,
    Taker,
    captured,
    plaintext,
    replay,
)


def packets_of(path: Path) -> list[tuple[int, bytes]]:
    """Return start and bytes of each block of a pcapng file."""
    raw, at, blocks = path.read_bytes(), 0, []
    while at < len(raw):
        size = int.from_bytes(raw[at + 4 : at + 8], "little")
        blocks.append((raw[at], raw[at : at + size]))
        at += size
    return blocks


@pytest.mark.parametrize("layout", LAYOUTS)
def test_capture_without_its_handshakes(tmp_path: Path, layout: str) -> None:
    path = tmp_path / "file.pcapng"
    taker = Taker(path, layout=layout)
    taker.take([(WRITE, REQUEST), (READ, RESPONSE), (READ, 100), (WRITE, REQUEST)])
    taker.close()
    kept = [
        block
        for kind, block in packets_of(path)
        if kind != 6 or any(word in block for word in (b"HTTP/1.1\r\n", b"200 OK", b'"lost"'))
    ]
    path.write_bytes(b"".join(kept))
    (seen,) = replay(path)
    assert plaintext(seen, WRITE) == REQUEST * 2
    assert plaintext(seen, READ) == RESPONSE + bytes(100)
    assert seen.connection.missing == {LossCause.RING_FULL: 100}
    assert not seen.connection.from_start


@pytest.mark.parametrize("layout", LAYOUTS)
def test_capture_without_one_packet(tmp_path: Path, layout: str) -> None:
    path = tmp_path / "file.pcapng"
    taker = Taker(path, layout=layout)
    taker.take([(WRITE, REQUEST), (READ, RESPONSE), (WRITE, b"dropped"), (WRITE, REQUEST)])
    taker.close()
    path.write_bytes(b"".join(block for _, block in packets_of(path) if b"dropped" not in block))
    (seen,) = replay(path)
    assert seen.runs[WRITE] == [
        (0, REQUEST, None),
        (len(REQUEST), 7, LossCause.NOT_CAPTURED),
        (len(REQUEST) + 7, REQUEST, None),
    ]


def test_second_part_alone(tmp_path: Path) -> None:
    path = tmp_path / "file.pcapng"
    taker = Taker(path)
    taker.take([(READ, b"tail"), (WRITE, REQUEST), (READ, RESPONSE)], from_start=False)
    taker.close()
    blocks = packets_of(path)
    second = next(i for i, (_, block) in enumerate(blocks) if b'"part": 2' in block)
    kept = [block for i, (kind, block) in enumerate(blocks) if kind != 6 or i >= second]
    path.write_bytes(b"".join(kept))
    (seen,) = replay(path)
    assert plaintext(seen, READ) == RESPONSE
    assert seen.connection.missing == {}
    assert seen.connection.process.comm == "curl"


def test_two_captures_in_one_file(tmp_path: Path) -> None:
    raw = captured([(READ, b"tail"), (WRITE, REQUEST)], from_start=False)
    path = tmp_path / "file"
    path.write_bytes(raw + raw)
    seen = replay(path)
    assert [plaintext(each, WRITE) for each in seen] == [REQUEST, REQUEST]
