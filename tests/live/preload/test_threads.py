"""The preloaded library under many threads: each message once, no data race, killed processes."""

import contextlib
import os
import random
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from sslsniff.core.flows import Flows
from sslsniff.core.model import Chunk, Connection, Direction
from sslsniff.kernel.memory.ring_set import RingSet
from sslsniff.preload.preload_capture import PreloadCapture
from sslsniff.preload.preload_environment import LIBRARY, RING_VARIABLE
from sslsniff.preload.unseen_libraries import UnseenLibraries
from tests import libraries
from tests.chunks_only import ChunksOnly
from tests.live.checks import connections, run_under
from tests.live.test_ways import seen
from tests.live.watching import Watch
from tests.workload.compiler import ZIG
from tests.workload.debian import CACHE
from tests.workload.processes import PROGRAMS, next_line, run, say
from tests.workload.servers import Certificate

ROOT = PROGRAMS.parents[1]
OPTIONS = ("-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread")
BOTH_WAYS = "both ways"  # a thread that writes and one that reads have a connection together
WAYS = {
    "memory": ("many_threads", "-lssl", "-lcrypto"),
    "sockets": ("many_threads", "-lssl", "-lcrypto"),
    BOTH_WAYS: ("both_ways", "-lgnutls"),
}
"""A program in tests/workload/c, and what it is linked with."""
HIDDEN = "{ local: dlsym; dlvsym; setrlimit; setrlimit64; };"
"""The sanitizer calls these before it is ready."""
RING_BYTES = 64 << 20
KILLED = 8
CAUGHT_UP_S = 4  # with a full ring, and a second for each record that was not finished
Streams = Counter[tuple[str, str]]
"""What an end wrote and read -> how many ends did."""


def build(way: str, program: Path, *options: str) -> None:
    """Compile the program of a way."""
    name, *linked = WAYS[way]
    run("gcc", *OPTIONS, *options, "-o", program, PROGRAMS / f"c/{name}.c", *linked)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the program of each way."""
    folder = tmp_path_factory.mktemp("threads")
    found = {way: folder / way for way in WAYS}
    for way, program in found.items():
        build(way, program)
    return found


def passed(threads: int, messages: int, size: int) -> Streams:
    """Return what the ends of the connections of tests/workload/c/many_threads.c pass."""
    expected: Streams = Counter()
    for thread in range(threads):
        asked = said("t%d n%d ", thread, messages, size)
        answered = said("T%d N%d ", thread, messages, size)
        expected += Counter([(asked, answered), (answered, asked)])
    return expected


def said(form: str, thread: int, messages: int, size: int) -> str:
    texts = (form % (thread, number) for number in range(messages))
    return "".join((text * (size // len(text) + 1))[:size] for text in texts)


def arguments(way: str, certificate: Certificate, *numbers: int) -> list[str]:
    how = () if way == BOTH_WAYS else (way,)
    return [*map(str, (*how, *numbers, certificate.certificate, certificate.key))]


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("way", "numbers"),
    [("memory", (1000, 20, 200)), ("memory", (50, 40, 16_000)), (BOTH_WAYS, (200, 10, 5_000))],
)
def test_each_message_once(
    way: str,
    numbers: tuple[int, int, int],
    programs: dict[str, Path],
    certificate: Certificate,
    tmp_path: Path,
    engine: str,
) -> None:
    """A thousand threads, and fewer with large messages."""
    command = (str(programs[way]), *arguments(way, certificate, *numbers))
    options = ("--chunks", "--ring-size", "256M")
    captured = run_under(tmp_path, *command, options=options, engine=engine).captured
    assert seen(captured) == passed(*numbers)
    assert captured.summary["lost_bytes"] == 0
    assert connections(captured) == connections(captured, "closed") == 2 * numbers[0]


class Heard(ChunksOnly):
    """A ``flows.Listener`` that keeps what each end writes and reads."""

    def __init__(self) -> None:
        self.streams: dict[str, dict[Direction, bytearray]] = {}

    def opened(self, connection: Connection, time_ns: int) -> None:
        self.streams[connection.id] = {direction: bytearray() for direction in Direction}

    def chunk(self, chunk: Chunk) -> None:
        assert chunk.missing == 0
        self.streams[chunk.connection.id][chunk.direction] += chunk.data

    def ended(self, connection: Connection, direction: Direction, time_ns: int) -> None: ...

    def handshake(self, handshake: object) -> None: ...
    def closed(self, connection: Connection, time_ns: int) -> None: ...

    def passed(self) -> Streams:
        return Counter(
            (each[Direction.WRITE].decode(), each[Direction.READ].decode())
            for each in self.streams.values()
        )


@pytest.mark.parametrize("buckets", [8192, 64])
@pytest.mark.parametrize("way", WAYS)
def test_no_data_race(way: str, buckets: int, certificate: Certificate, tmp_path: Path) -> None:
    """Program and library are built with ThreadSanitizer, which ends a program with a race.

    ``buckets``: of the table of connections. In few, threads take places beside each other.
    """
    program, library, hidden = (tmp_path / name for name in ("program", LIBRARY.name, "hidden"))
    hidden.write_text(HIDDEN)
    sanitized = (*OPTIONS, "-fsanitize=thread")
    build(way, program, "-fsanitize=thread")
    shared = ("-shared", "-fPIC", "-fvisibility=hidden", f"-I{ROOT / 'bpf'}", "-D_GNU_SOURCE")
    hiding = f"-Wl,--version-script={hidden}"
    few = f"-DBUCKETS={buckets}"
    run("gcc", *sanitized, *shared, hiding, few, "-o", library, ROOT / "preload/preload.c")
    rings = RingSet(RING_BYTES, 1 << 20)
    environment = {
        **os.environ,
        "LD_PRELOAD": f"libtsan.so.2 {library}",
        "TSAN_OPTIONS": "halt_on_error=1",
        RING_VARIABLE: rings.path,
    }
    numbers = (100, 20, 300)
    heard, notes = Heard(), list[str]()
    command = [str(program), *arguments(way, certificate, *numbers)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        capture = PreloadCapture(
            rings,
            process.pid,
            note=notes.append,
            unseen=UnseenLibraries(notes.append),
        )
        flows = Flows(capture.libraries, heard)
        with contextlib.closing(capture):
            while not capture.ended:
                for event in capture.poll(0.1):
                    flows.handle(event)
            for event in capture.finish():
                flows.handle(event)
        assert process.stderr is not None
        errors = process.stderr.read()
    assert (process.returncode, errors, notes) == (0, "", []), errors
    assert heard.passed() == passed(*numbers)


@pytest.mark.parametrize("word", [0, 7 << 32, (1 << 31) - 1, (1 << 64) - 1])
@pytest.mark.parametrize("position", [8, 12, 1 << 40, (1 << 64) - 8])
def test_overwritten_ring(
    position: int,
    word: int,
    programs: dict[str, Path],
    certificate: Certificate,
    tmp_path: Path,
) -> None:
    """Whatever a program writes into its ring, it goes on as if it were alone, and is named."""
    damages = tmp_path / "damages.so"
    source = PROGRAMS / "c/damages.c"
    numbers = [f"-DPOSITION={position}UL", f"-DWORD={word}UL"]
    run("gcc", *OPTIONS, *numbers, "-shared", "-fPIC", "-o", damages, source)
    for way, program in programs.items():
        rings, notes = RingSet(RING_BYTES, 1 << 20), list[str]()
        # The last one is initialized first.
        library = {"LD_PRELOAD": f"{damages} {LIBRARY}", RING_VARIABLE: rings.path}
        command = [str(program), *arguments(way, certificate, 4, 50, 200)]
        with subprocess.Popen(command, env={**os.environ, **library}) as process:
            capture = PreloadCapture(
                rings, process.pid, note=notes.append, unseen=UnseenLibraries(notes.append)
            )
            with contextlib.closing(capture):
                while not capture.ended:
                    list(capture.poll(0.1))
                list(capture.finish())
        assert process.returncode == 0
        [note] = notes
        assert f"[{process.pid}] overwrote the memory that it shares with sslsniff" in note


@pytest.mark.heavy
def test_musl(certificate: Certificate, tmp_path: Path) -> None:
    """The same library serves programs with another libc, here with the OpenSSL of a wheel."""
    [wheel] = (CACHE / "wheels/musl").glob("*.whl")
    run(sys.executable, "-m", "zipfile", "-e", wheel, tmp_path)
    [folder] = tmp_path.glob("*.libs")
    found = [*folder.glob("libssl-*"), *folder.glob("libcrypto-*")]
    linked = [*map(str, found), f"-Wl,-rpath,{folder}"]
    headers = []
    for at, real in enumerate((Path("/usr/include"), Path("/usr/include/x86_64-linux-gnu"))):
        (tmp_path / str(at)).mkdir()
        (tmp_path / str(at) / "openssl").symlink_to(real / "openssl")
        headers.append(f"-I{tmp_path / str(at)}")
    program = tmp_path / "many_threads"
    compiler = (*ZIG, "cc", "-target", "x86_64-linux-musl", "-dynamic")
    source = PROGRAMS / "c/many_threads.c"
    run(*compiler, "-O1", *headers, "-o", program, source, *linked, "-Wl,--allow-shlib-undefined")
    numbers = (20, 20, 200)
    loader = libraries.library("musl").folder / "usr/lib/x86_64-linux-musl/libc.so"
    command = (str(loader), str(program), *arguments("memory", certificate, *numbers))
    captured = run_under(tmp_path, *command, options=["--chunks"], engine="preload").captured
    assert seen(captured) == passed(*numbers)
    assert captured.not_probed == []
    assert {each["library"] for each in captured.of("connection")} == {"openssl"}


@pytest.mark.heavy
def test_killed_while_they_write(
    programs: dict[str, Path], certificate: Certificate, watch: Watch
) -> None:
    """Processes are killed at random moments: those after them are seen, each message once."""
    program = str(programs["memory"])
    busy = [program, *arguments("sockets", certificate, 8, 100_000, 500)]
    last = [program, *arguments("memory", certificate, 2, 50, 100)]
    script = f"""
        for number in $(seq {KILLED}); do {" ".join(busy)} & echo $!; read word; kill -9 $!; done
        sleep {CAUGHT_UP_S}; {" ".join(last)}
    """
    moments = random.Random(5)
    with watch.json("sh", "-c", script, options=["--chunks", "--ring-size", "4M"]) as sniffer:
        killed = set()
        for _ in range(KILLED):
            killed.add(int(next_line(sniffer.process)))
            time.sleep(moments.uniform(0.05, 0.2))
            say(sniffer.process, "kill")
        captured = sniffer.wait()
    assert captured.code == 0
    rest = [each for each in captured.objects if each.get("pid") not in killed]
    assert len(rest) < len(captured.objects)
    assert seen(replace(captured, objects=rest)) == passed(2, 50, 100)
