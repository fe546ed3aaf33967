"""The two sides of the wire contract, and the parsing of its records."""

import re
import struct
from collections.abc import Iterable
from enum import Enum

import pytest

from sslsniff.capture import maps
from sslsniff.core import events, wire
from sslsniff.core.events import DIRECTIONS, EventKind
from sslsniff.core.handshakes import SocketEnding
from sslsniff.core.losses import LossCause
from sslsniff.core.model import Address, Direction
from sslsniff.core.ring_records import BUSY, DISCARDED, PADDING_BYTES, Records
from sslsniff.decoders.messages import Side
from sslsniff.fetching import fetch_steps, fetch_tables, hit_records
from sslsniff.fetching.fetch_steps import FetchStep, StepKind
from sslsniff.kernel.loaders.libbpf import OBJECT
from sslsniff.libraries.rustls import record_layout
from tests.btf import enums, structs

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
    marked = bytes(range(1, 251)) * 7
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
        ("event_cgroup", wire.CGROUP),
        ("event_data", wire.DATA),
        ("event_ended", wire.ENDED),
        ("event_closed", wire.CLOSED),
        ("event_addresses", wire.ADDRESSES),
        ("event_exited", wire.EXITED),
        ("event_socket_ended", wire.SOCKET_ENDED),
        ("event_paired", wire.PAIRED),
        ("event_socket_gone", wire.SOCKET_GONE),
        ("event_left_out", wire.LEFT_OUT),
        ("noted_send", wire._NOTED_SEND),
        ("tls_socket", wire.TLS_SOCKET),
        ("event_failure", wire.FAILURE),
        ("event_stdio", wire.STDIO),
        ("stdio_pair", maps._STDIO_PAIR),
        ("event_hit", hit_records.HIT),
        ("rate", fetch_tables._RATE),
        ("config", maps._CONFIG),
        ("layout", maps._LAYOUT),
        ("rustls_layout", record_layout._ROW),
        ("connection_key", maps._CONNECTION_KEY),
        ("connection", maps._CONNECTION),
    ],
)
def test_layouts_are_those_of_the_object(name: str, layout: struct.Struct) -> None:
    flat = []
    for offset, size in scalars(name):
        # An array of numbers is as many values; text is one.
        has_numbers = name in ("event_closed", "connection") or (name, offset) == ("stdio_pair", 24)
        count = size // 8 if has_numbers and size == 16 else 1
        flat += [(offset + 8 * index, size // count) for index in range(count)]
    assert fields(layout) == flat
    assert layout.size == STRUCTS[name].size


def defined(header: str, name: str) -> int:
    """Return the number that a BPF header defines ``name`` to be."""
    text = OBJECT.with_name(header).read_text("utf-8")
    [value] = re.findall(rf"^#define {name} (\d+)$", text, re.MULTILINE)
    return int(value)


def numbered(prefix: str, members: Iterable[Enum | None]) -> dict[str, int]:
    """Return what a C enum is whose numbers are indexes of ``members``; None is ``NONE``."""
    return {
        f"{prefix}_{each.name if each else 'NONE'}": number for number, each in enumerate(members)
    }


@pytest.mark.slow
def test_enums_are_those_of_the_object() -> None:
    found = enums(OBJECT)
    assert found["event_kind"] == {f"EVENT_{each.name}": each for each in EventKind}
    assert found["direction"] == {
        **numbered("DIRECTION", DIRECTIONS),
        "DIRECTIONS": len(DIRECTIONS),
    }
    assert found["cut"] == numbered("CUT", wire._CUTS)
    assert found["half"] == numbered("HALF", wire._HALVES)
    roles = numbered("ROLE", wire._ROLES)
    assert found["role"] == {"ROLE_UNKNOWN": roles.pop("ROLE_NONE"), **roles}
    for kind, parser in wire._PARSERS.items():
        assert parser.__name__ == f"_parse_{EventKind(kind).name.lower()}"
    assert set(wire._PARSERS) == {*EventKind} - {EventKind.HIT}
    assert found["tls_start"] == {f"TLS_{each.name}": each for each in events.TlsStart}
    assert found["socket_ending"] == {f"ENDING_{each.name}": each for each in SocketEnding}
    assert found["action"] == {f"ACTION_{each.name}": each for each in fetch_tables._Action}
    assert found["step_kind"] == {f"STEP_{each.name}": each for each in StepKind}


@pytest.mark.slow
def test_counters_are_those_of_the_object() -> None:
    counters = dict(enums(OBJECT)["counter"])
    for index, cause in enumerate(maps._COUNTED):
        assert counters.pop(f"COUNTER_{cause.name}_EVENTS") == 2 * index
        assert counters.pop(f"COUNTER_{cause.name}_BYTES") == 2 * index + 1
    assert counters.pop("COUNTERS") == maps._LOST_FAILURES + 1
    names = ("UNTRACKED_CALLS", "UNRELIABLE_TYPES", "LEFT_OUT", "LOST_EXITS", "LOST_CLOSES")
    later = ("LOST_ENDS", "UNFOLLOWED", "UNMATCHED_CALLS", "LOST_HITS", "LIMITED_HITS")
    for name in (*names, *later, "TLS_SOCKETS", "UNCHECKED_SOCKETS", "LOST_FAILURES"):
        assert counters.pop(f"COUNTER_{name}") == getattr(maps, f"_{name}")
    assert counters == {}


def test_limits_are_those_of_the_source() -> None:
    assert defined("maps.bpf.h", "MOST_LAYOUTS") == maps.MOST_LAYOUTS
    assert defined("event.h", "NOTED_SENDS") == events.NOTED_SENDS
    assert defined("rustls.bpf.h", "MISFITS_ALLOWED") == record_layout._MISFITS_ALLOWED
    assert defined("functions.bpf.h", "BUCKETS") == fetch_tables.BUCKETS
    assert defined("fetch.bpf.h", "MOST_STEPS") == fetch_steps.MOST_STEPS
    assert defined("fetch.bpf.h", "MOST_DEPTH") == fetch_steps.MOST_DEPTH


def test_steps_are_encoded_as_the_object_reads_them() -> None:
    step = FetchStep(StepKind.COPY, value=-5, offset=0xABCD, item=63)
    assert struct.unpack("<BBHi", fetch_steps.encode((step,))) == (30, 63, 0xABCD, -5)
    assert list(STRUCTS["step"].members.values()) == [(0, 1), (1, 1), (2, 2), (4, 4)]
    fetch = STRUCTS["fetch"]
    assert fetch.members["steps"] == (fetch_tables._FETCH.size, 8 * fetch_steps.MOST_STEPS)
    assert fields(fetch_tables._FETCH) == list(fetch.members.values())[:-1]


def as_records(*found: bytes, busy: int = 0) -> Records:
    """Return records as the ring has them; the last one is ``busy``."""
    data = b""
    for each in found:
        data += struct.pack("<I4x", len(each)) + each.ljust(-len(each) % 8 + len(each), b"\0")
    data += struct.pack("<I4x", busy) if busy else b""
    return Records(memoryview(data + bytes(PADDING_BYTES + 64)), 0, len(data))


def test_hits_and_ends_of_processes_are_read() -> None:
    hit = hit_records.HIT.pack(EventKind.HIT, 0, 0, 77, 1000, 0, 70, 3, 1 << 40, 9, 5, 8, 4, 0)
    exited = wire.EXITED.pack(EventKind.EXITED, 0, 0, 0, 2000, 0, 70, 0)
    cgroup = wire.CGROUP.pack(EventKind.CGROUP, 0, 0, 0, 1000, 0, 1 << 40, b"path")
    records = as_records(hit + b"abcd" + b"state", cgroup, exited, busy=BUSY | 100)
    first, second = hit_records.read_hits(records, 10**18)
    assert first == hit_records.parse_hit(memoryview(hit + b"abcd" + b"state"), 10**18)
    assert first == hit_records.Hit(10**18 + 1000, 70, 77, 3, 1 << 40, 9, 5, 8, b"abcd")
    assert isinstance(first, hit_records.Hit)
    assert second == events.Exited(10**18 + 2000, 70)
    assert records.position == records.end - 8


def test_discarded_hits_are_not_read() -> None:
    records = Records(memoryview(struct.pack("<I4x", 24 | DISCARDED) + bytes(200)), 0, 32)
    assert list(hit_records.read_hits(records, 0)) == []
    assert records.position == 32


def test_data_is_parsed() -> None:
    record = wire.DATA.pack(EventKind.DATA, 1, 1, 77, 1000, 42, 5, 9, 4, 31) + b"abcd" + b"junk"
    assert wire.parse(memoryview(record), 10**18) == events.Data(
        10**18 + 1000, 77, 42, Direction.WRITE, 5, 9, b"abcd", LossCause.CALL_LIMIT, 31
    )


@pytest.mark.parametrize(("half", "shown"), [(0, None), (1, Direction.READ), (2, Direction.WRITE)])
def test_opened_is_parsed(half: int, shown: Direction | None) -> None:
    record = wire.OPENED.pack(
        *(
            EventKind.OPENED,
            0,
            0,
            77,
            1000,
            42,
            70,
            1000,
            0xDEAD,
            3,
            0x0304,
            1,
            1,
            2,
            half,
            5,
            0xC6,
        ),
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
        cgroup=0xC6,
        container_pid=5,
    )


def test_a_new_cgroup_is_parsed() -> None:
    path = "/docker/" + "0f" * 32
    junk = b"\0what stood there before"
    record = wire.CGROUP.pack(EventKind.CGROUP, 0, 0, 0, 1000, 0, 1 << 40, path.encode() + junk)
    assert wire.parse(memoryview(record), 5) == events.CgroupMade(1005, 1 << 40, path)


@pytest.mark.parametrize(
    ("family", "raw", "shown"),
    [
        (2, bytes([127, 0, 0, 1]), "127.0.0.1"),
        (10, bytes(15) + b"\1", "::1"),
        (10, bytes(10) + b"\xff\xff" + bytes([10, 0, 0, 7]), "10.0.0.7"),
    ],
)
def test_addresses_are_parsed(family: int, raw: bytes, shown: str) -> None:
    record = wire.ADDRESSES.pack(
        EventKind.ADDRESSES, 0, 0, 77, 1000, 42, family, 4000, 443, raw, raw, 0xBEEF
    )
    assert wire.parse(memoryview(record), 0) == events.Addresses(
        1000, 42, Address(shown, 4000), Address(shown, 443), 0xBEEF
    )


def test_ends_and_pairs_are_parsed() -> None:
    ended = wire.ENDED.pack(EventKind.ENDED, 1, 0, 77, 1000, 42, 5)
    assert wire.parse(memoryview(ended), 0) == events.Ended(1000, 42, Direction.WRITE, 5)
    closed = wire.CLOSED.pack(EventKind.CLOSED, 0, 0, 77, 1000, 42, 5, 6)
    assert wire.parse(memoryview(closed), 0) == events.Closed(1000, 42, 5, 6)
    paired = wire.PAIRED.pack(EventKind.PAIRED, 0, 0, 77, 1000, 42, 43)
    assert wire.parse(memoryview(paired), 0) == events.Paired(1000, 42, 43)
    gone = wire.SOCKET_GONE.pack(EventKind.SOCKET_GONE, 0, 0, 0, 1000, 0, 0xBEEF)
    assert wire.parse(memoryview(gone), 0) == events.SocketGone(1000, 0xBEEF)
    left_out = wire.LEFT_OUT.pack(EventKind.LEFT_OUT, 0, 0, 77, 1000, 42)
    assert wire.parse(memoryview(left_out), 0) == events.LeftOut(1000, 42)
    exited = wire.EXITED.pack(EventKind.EXITED, 0, 0, 0, 1000, 0, 70, 0)
    assert wire.parse(memoryview(exited), 0) == events.Exited(1000, 70)
