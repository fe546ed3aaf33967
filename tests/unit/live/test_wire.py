"""The two sides of the wire contract, and the parsing of its records."""

import re
import struct

import pytest

from sslsniff import events
from sslsniff.decoders.messages import Side
from sslsniff.kernel.loaders.libbpf import OBJECT
from sslsniff.live import maps, wire
from sslsniff.model import Address, Direction, LossCause
from tests.btf import structs

STRUCTS = structs(OBJECT)


def scalars(name: str, prefix: str = "") -> list[tuple[int, int]]:
    """Return (offset, size) of every member of a struct, the header's own members in its place."""
    members: list[tuple[int, int]] = []
    for member, (offset, size) in STRUCTS[name].members.items():
        if member == "header":
            members += scalars("event_header")
        elif not member.startswith("pad"):
            members.append((offset, size))
    return members


def fields(layout: struct.Struct) -> list[tuple[int, int]]:
    """Return (offset, size) of every value that a ``struct`` format unpacks."""
    marked = bytes(range(1, 251)) * 3
    found, at = [], 0
    pattern = layout.format.lstrip("<")
    number = ""
    for code in pattern:
        if code.isdigit():
            number += code
            continue
        if code in "sx":
            size, count = int(number or 1), 1
        else:
            size, count = struct.calcsize("<" + code), int(number or 1)
        for _ in range(count):
            if code != "x":
                found.append((at, size))
            at += size
        number = ""
    assert at == layout.size <= len(marked)
    return found


@pytest.mark.parametrize(
    ("name", "layout"),
    [
        ("event_header", wire.HEADER),
        ("event_opened", wire.OPENED),
        ("event_data", wire.DATA),
        ("event_ended", wire.ENDED),
        ("event_closed", wire.CLOSED),
        ("event_addresses", wire.ADDRESSES),
        ("event_exited", wire.EXITED),
        ("event_paired", wire.PAIRED),
        ("event_socket_gone", wire.SOCKET_GONE),
        ("event_left_out", wire.LEFT_OUT),
        ("config", maps._CONFIG),
        ("layout", maps._LAYOUT),
        ("rustls_layout", maps._RUSTLS_LAYOUT),
        ("connection_key", maps._CONNECTION_KEY),
        ("connection", maps._CONNECTION),
    ],
)
def test_layouts_are_those_of_the_object(name: str, layout: struct.Struct) -> None:
    flat = []
    for offset, size in scalars(name):
        # An array of numbers is as many values; text is one.
        count = size // 8 if name in ("event_closed", "connection") and size == 16 else 1
        flat += [(offset + 8 * index, size // count) for index in range(count)]
    assert fields(layout) == flat
    assert layout.size == STRUCTS[name].size


def numbers(header: str, kind: str) -> list[str]:
    """Return the members of an enum of a BPF header, in order."""
    text = OBJECT.with_name(header).read_text("utf-8")
    [body] = re.findall(rf"enum {kind} \{{(.*?)\}}", text, re.DOTALL)
    return re.findall(r"^\t(\w+)", body, re.MULTILINE)


def defined(header: str, name: str) -> int:
    """Return the number that a BPF header defines ``name`` to be."""
    text = OBJECT.with_name(header).read_text("utf-8")
    [value] = re.findall(rf"^#define {name} (\d+)$", text, re.MULTILINE)
    return int(value)


def test_numbers_are_those_of_the_source() -> None:
    counters = numbers("maps.bpf.h", "counter")
    for index, cause in enumerate(maps._COUNTED):
        both = [f"COUNTER_{cause.name}_EVENTS", f"COUNTER_{cause.name}_BYTES"]
        assert counters[2 * index : 2 * index + 2] == both
    names = ("UNTRACKED_CALLS", "UNRELIABLE_TYPES", "LEFT_OUT", "LOST_EXITS", "LOST_CLOSES")
    for name in (*names, "LOST_ENDS", "UNFOLLOWED", "UNMATCHED_CALLS"):
        assert counters[getattr(maps, f"_{name}")] == f"COUNTER_{name}"
    assert counters.index("COUNTERS") == maps._UNMATCHED_CALLS + 1
    kinds = numbers("event.h", "event_kind")
    for number, parser in wire._PARSERS.items():
        assert parser.__name__.removeprefix("_parse_") == kinds[number - 1].lower()[6:]
    assert len(kinds) == len(wire._PARSERS)
    cuts = [each and f"CUT_{each.name}" for each in wire._CUTS]
    assert [None, *numbers("event.h", "cut")[1:]] == cuts
    assert defined("maps.bpf.h", "MOST_LAYOUTS") == maps.MOST_LAYOUTS
    assert defined("rustls.bpf.h", "MISFITS_ALLOWED") == maps._MISFITS_ALLOWED


def test_data_is_parsed() -> None:
    record = wire.DATA.pack(2, 1, 1, 77, 1000, 42, 5, 9, 4, 100, 5) + b"abcd" + b"junk"
    assert wire.parse(memoryview(record), 10**18) == events.Data(
        10**18 + 1000, 77, 42, Direction.WRITE, 5, 9, b"abcd", LossCause.CALL_LIMIT
    )


@pytest.mark.parametrize(("half", "shown"), [(0, None), (1, Direction.READ), (2, Direction.WRITE)])
def test_opened_is_parsed(half: int, shown: Direction | None) -> None:
    record = wire.OPENED.pack(
        *(1, 0, 0, 77, 1000, 42, 70, 1000, 0xDEAD, 3, 0x0304, 1, 1, 2, half),
        *(b"curl", b"h2 and what stood behind it", b"example.org", b"TLS_AES_128_GCM_SHA256"),
    )
    assert wire.parse(memoryview(record), 0) == events.Opened(
        time_ns=1000,
        tid=77,
        connection=42,
        pid=70,
        uid=1000,
        comm="curl",
        library=3,
        role=Side.CLIENT,
        from_start=True,
        tls_version="TLS 1.3",
        alpn="h2",
        sni="example.org",
        cipher="TLS_AES_128_GCM_SHA256",
        object_address=0xDEAD,
        half=shown,
    )


@pytest.mark.parametrize(
    ("family", "raw", "shown"),
    [
        (2, bytes([127, 0, 0, 1]), "127.0.0.1"),
        (10, bytes(15) + b"\1", "::1"),
        (10, bytes(10) + b"\xff\xff" + bytes([10, 0, 0, 7]), "10.0.0.7"),
    ],
)
def test_addresses_are_parsed(family: int, raw: bytes, shown: str) -> None:
    record = wire.ADDRESSES.pack(3, 0, 0, 77, 1000, 42, family, 4000, 443, raw, raw, 0xBEEF)
    assert wire.parse(memoryview(record), 0) == events.Addresses(
        1000, 42, Address(shown, 4000), Address(shown, 443), 0xBEEF
    )


def test_ends_and_pairs_are_parsed() -> None:
    ended = wire.ENDED.pack(6, 1, 0, 77, 1000, 42, 5)
    assert wire.parse(memoryview(ended), 0) == events.Ended(1000, 42, Direction.WRITE, 5)
    closed = wire.CLOSED.pack(4, 0, 0, 77, 1000, 42, 5, 6)
    assert wire.parse(memoryview(closed), 0) == events.Closed(1000, 42, 5, 6)
    paired = wire.PAIRED.pack(7, 0, 0, 77, 1000, 42, 43)
    assert wire.parse(memoryview(paired), 0) == events.Paired(1000, 42, 43)
    gone = wire.SOCKET_GONE.pack(8, 0, 0, 0, 1000, 0, 0xBEEF)
    assert wire.parse(memoryview(gone), 0) == events.SocketGone(1000, 0xBEEF)
    left_out = wire.LEFT_OUT.pack(9, 0, 0, 77, 1000, 42)
    assert wire.parse(memoryview(left_out), 0) == events.LeftOut(1000, 42)
    exited = wire.EXITED.pack(5, 0, 0, 0, 1000, 0, 70)
    assert wire.parse(memoryview(exited), 0) == events.Exited(1000, 70)
