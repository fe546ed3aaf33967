"""The rings of programs: what the reader does for writers without a lock, and does not believe."""

import contextlib
import ctypes
import mmap
import os
import signal
import socket
import struct
import subprocess
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from sslsniff.core import wire
from sslsniff.core.events import EventKind, Opened
from sslsniff.core.ring_records import HEADER_BYTES
from sslsniff.kernel.memory import shared_ring
from sslsniff.kernel.memory.ring_set import RingSet
from sslsniff.kernel.memory.shared_ring import LIBRARY, RingState
from tests.unit.kernel.memory.ring_writer import (
    PAGE,
    SEALS,
    SIZE,
    Writer,
    connect,
    make_memory,
    send,
    send_by,
)


@pytest.fixture
def rings() -> Iterator[RingSet]:
    made = RingSet(1 << 22, 1 << 20)
    yield made
    made.close()


@pytest.fixture
def writer(rings: RingSet) -> Writer:
    made = Writer(rings)
    assert [ring.pid for ring in rings.receive()] == [os.getpid()]
    return made


def data_of(
    text: bytes, *, time_ns: int = 1, tid: int | None = None, connection: int = 1, position: int = 0
) -> bytes:
    tid = os.getpid() if tid is None else tid
    head = (EventKind.DATA, 1, 0, tid, time_ns, connection, position, len(text), len(text), 0)
    return wire.DATA.pack(*head) + text


def read_all(rings: RingSet) -> list[bytes]:
    records = rings.read()
    found = []
    while (record := records.next()) is not None:
        found.append(bytes(record))
    rings.release()
    return found


def texts(rings: RingSet) -> list[bytes]:
    return [record[wire.DATA.size :] for record in read_all(rings)]


def test_layout() -> None:
    assert ctypes.sizeof(RingState) == ctypes.c_uint32.in_dll(LIBRARY, "ring_struct_bytes").value


def test_many_laps(rings: RingSet, writer: Writer) -> None:
    """Records wrap around the end; what was read is free in the next lap, whole."""
    for number in range(1000):
        text = bytes([number % 256]) * (number * 7 % 3000)
        writer.put(data_of(text))
        assert texts(rings) == [text]
        assert rings.waiting_bytes == 0


def resident_pages(writer: Writer) -> int:
    """Return how many pages of a ring have memory: mincore(2)."""
    size = len(writer.pages)
    pages = (ctypes.c_ubyte * (size // PAGE))()
    address = ctypes.addressof(ctypes.c_char.from_buffer(writer.pages))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mincore(ctypes.c_void_p(address), ctypes.c_size_t(size), pages) == 0
    return sum(each & 1 for each in pages)


@pytest.mark.parametrize(("records", "is_ahead"), [(10, False), (30, True)])
def test_memory_that_a_busy_program_needs_soon(
    records: int, is_ahead: bool, rings: RingSet, writer: Writer
) -> None:
    """It is there before the program writes to it; one that writes little gets no more."""
    for _ in range(records):
        writer.put(data_of(bytes(2500)))
    before = resident_pages(writer)
    assert len(texts(rings)) == records
    ahead = resident_pages(writer) - before
    written = records * 2500 // PAGE
    assert ahead >= 3 * written // 2 if is_ahead else ahead <= 1  # the reader's own page


@pytest.mark.tools
def test_unfinished_record(rings: RingSet, writer: Writer) -> None:
    """It is waited for while its thread lives; without it, it is skipped."""
    writer.put(data_of(b"before"))
    writer.put(b"never finished", busy_thread=os.getpid())
    writer.put(data_of(b"after"))
    assert texts(rings) == [b"before"]
    assert rings.skip_abandoned(0) == rings.skip_abandoned(0) == 0
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    word = struct.pack("<I", ended.pid)
    at = 2 * PAGE + HEADER_BYTES + len(data_of(b"before")) + 2
    assert writer.pages[at + 4 : at + 8] == struct.pack("<I", os.getpid())
    writer.pages[at + 4 : at + 8] = word
    rings.skip_abandoned(-1)
    assert texts(rings) == [b"after"]


@contextlib.contextmanager
def other_writer(rings: RingSet, first: int) -> Iterator[None]:
    """Another process that has written every third record from ``first`` on."""
    done, written = os.pipe()
    pid = os.fork()
    if not pid:
        writer = Writer(rings)
        for number in range(first, 30, 3):
            time_ns = rings.since_ns + number
            writer.put(data_of(b"%d" % number, tid=os.getpid(), time_ns=time_ns))
        os.write(written, b"w")
        signal.pause()
    os.read(done, 1)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(done)
        os.close(written)


def test_order_of_time(rings: RingSet) -> None:
    """Records of several programs come in the order of their time."""
    with contextlib.ExitStack() as writers:
        for first in range(3):
            writers.enter_context(other_writer(rings, first))
        assert len(rings.receive()) == 3
        assert texts(rings) == [b"%d" % number for number in range(30)]


def test_identity_is_the_kernel_s(rings: RingSet, writer: Writer) -> None:
    """What a record says of process, user, thread, connection and time is not believed."""
    connection = 12345 << 32 | 7
    fields = (EventKind.OPENED, 0, 0, 1, 1 << 63, connection, 1, 0, 5, 1, 0x304, 1, 1, 0, 0, 9, 9)
    writer.put(wire.OPENED.pack(*fields, b"init", b"", b"", b""))
    writer.put(data_of(b"x", tid=1, time_ns=0, connection=connection))
    opened, data = read_all(rings)
    event = wire.parse(memoryview(opened), 0)
    assert isinstance(event, Opened)
    assert (event.pid, event.uid, event.tid) == (os.getpid(), os.getuid(), os.getpid())
    assert (event.cgroup, event.container_pid) == (0, None)
    assert event.connection == 1 << 32 | 7
    heads = [wire.HEADER.unpack_from(record) for record in (opened, data)]
    assert [head[5] for head in heads] == [1 << 32 | 7] * 2
    assert all(rings.since_ns <= head[4] < rings.since_ns + 60 * 10**9 for head in heads)
    assert rings.own_id(event.connection) == os.getpid() << 32 | 7


@pytest.mark.heavy
def test_many_threads(rings: RingSet) -> None:
    """What is known of threads takes a bounded memory, whatever numbers a program writes."""
    fd = make_memory()
    send(rings, fd)
    os.close(fd)
    [ring] = rings.receive()
    # Others allocate too, as Python does for its table of interned names: these lines alone count.
    lines = [tracemalloc.Filter(True, file) for file in (shared_ring.__file__, __file__)]
    tracemalloc.start()
    for tid in range(1 << 23, (1 << 23) + 60_000):
        assert ring.shown_thread(tid) == os.getpid()
    taken = tracemalloc.take_snapshot().filter_traces(lines)
    tracemalloc.stop()
    assert sum(trace.size for trace in taken.traces) < 1 << 20


@pytest.mark.parametrize(
    ("size", "seals"),
    [(2 * PAGE + SIZE, 0), (2 * PAGE + SIZE, SEALS & ~2), (2 * PAGE, SEALS), (SIZE, SEALS)],
)
def test_no_ring(size: int, seals: int, rings: RingSet) -> None:
    """A file that can be made shorter, or has another size, is refused."""
    fd = make_memory(size, seals)
    send(rings, fd)
    os.close(fd)
    assert rings.receive() == []
    assert rings.refused == 1


def test_who_may_send(rings: RingSet) -> None:
    """Only who can read the control page; what is no ring leaves no descriptor open."""
    before = len(list(Path("/proc/self/fd").iterdir()))
    fd = make_memory()
    send(rings, fd, token=bytes(16))
    send(rings)
    send(rings, fd, fd)
    assert rings.receive() == []
    send(rings, fd, by_file=True)
    assert len(rings.receive()) == 1
    os.close(fd)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as silent:
        silent.connect(rings.address.path)
        assert rings.receive() == []
    assert rings.receive() == []
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_ring_that_is_sent_late(rings: RingSet) -> None:
    """The kernel says who sent it, also after sslsniff accepted the connection."""
    fd = make_memory()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sender:
        connect(sender, rings)
        assert rings.receive() == []
        send_by(sender, rings, fd)
        assert [ring.pid for ring in rings.receive()] == [os.getpid()]
    os.close(fd)


def test_who_sent_is_who_connected(rings: RingSet) -> None:
    """A process that ends after it connected cannot leave its number to whoever has the socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as shared:
        child = os.fork()
        if not child:
            connect(shared, rings)
            os._exit(0)
        os.waitpid(child, 0)
        fd = make_memory()
        send_by(shared, rings, fd)
        os.close(fd)
        assert rings.receive() == []


def test_control_page_cannot_be_written(rings: RingSet) -> None:
    """Programs that open it can neither change its contents nor its size."""
    fd = os.open(rings.path, os.O_RDWR)
    try:
        with pytest.raises(PermissionError):
            os.ftruncate(fd, 0)
        with pytest.raises(PermissionError):
            os.write(fd, b"x")
        with pytest.raises(PermissionError):
            mmap.mmap(fd, PAGE)
    finally:
        os.close(fd)


def test_a_program_after_another(rings: RingSet, writer: Writer) -> None:
    """The ring of a later program of a process is read once the earlier one is at its end."""
    later = Writer(rings)
    later.put(data_of(b"later"))
    writer.put(data_of(b"earlier"))
    [ring] = rings.receive()
    assert texts(rings) == [b"earlier"]
    assert [each.pid for each in rings.remove_ended()] == [ring.pid]
    assert texts(rings) == [b"later"]


def test_damage_is_of_one_ring(rings: RingSet, writer: Writer) -> None:
    """Others are read on."""
    with other_writer(rings, 0):
        writer.put(data_of(b"mine"))
        struct.pack_into("<Q", writer.pages, PAGE, 1 << 40)
        rings.receive()
        assert len(texts(rings)) == 10
        assert [ring.pid for ring in rings.remove_ended()] == [os.getpid()]


def test_an_unfinished_record_of_no_thread_is_damage(rings: RingSet, writer: Writer) -> None:
    """Else the records after it would wait for good: no thread finishes it, and none ends."""
    position = writer.put(data_of(b"nobody's"), busy_thread=os.getpid())
    struct.pack_into("<I", writer.pages, 2 * PAGE + position + 4, 0)
    assert texts(rings) == []
    assert [ring.is_damaged for ring in rings.remove_ended()] == [True]


def test_copies_of_libraries(rings: RingSet, writer: Writer) -> None:
    """Each is returned once, also that of a program which has ended; of a damaged ring none."""
    at, names = PAGE + 280, b"\1/first\0\3/second\0"

    def found(size: int) -> list[tuple[int, str]]:
        struct.pack_into("<Q", writer.pages, at, size)
        writer.pages[at + 8 : at + 8 + len(names)] = names
        return [(each.library, each.path) for each in rings.new_copies()]

    assert found(8) == [(1, "/first")]
    assert found(8) == []
    rings.end_process(os.getpid())
    struct.pack_into("<Q", writer.pages, at, len(names))
    assert len(rings.remove_ended()) == 1
    assert found(len(names)) == [(3, "/second")]


def test_copies_that_cannot_be(rings: RingSet, writer: Writer) -> None:
    struct.pack_into("<Q", writer.pages, PAGE + 280, 1 << 40)
    assert rings.new_copies() == []
    assert [ring.is_damaged for ring in rings.remove_ended()] == [True]


@pytest.mark.parametrize(
    ("size", "found"), [(14, ["/first"]), (15, ["/first", "/second"]), (1 << 40, [])]
)
def test_loaded_files(size: int, found: list[str], rings: RingSet, writer: Writer) -> None:
    """They are known once the program has ended; one whose name is not whole does not count."""
    names = b"/first\0/second\0"
    struct.pack_into("<Q", writer.pages, PAGE + 2336, size)
    writer.pages[PAGE + 2344 : PAGE + 2344 + len(names)] = names
    rings.end_process(os.getpid())
    assert [ring.loaded_files for ring in rings.remove_ended()] == [found]


def test_counters(rings: RingSet, writer: Writer) -> None:
    """What programs count is added up; what cannot be is not."""
    assert set(rings.counters) == {0}
    struct.pack_into("<QQ", writer.pages, PAGE + 128, 3, 4000)
    assert rings.counters[:2] == (3, 4000)
    struct.pack_into("<QQ", writer.pages, PAGE + 128, 1, 1 << 63)
    assert rings.counters[:2] == (3, 4000)
    assert [ring.is_damaged for ring in rings.remove_ended()] == [True]
