"""What a call costs under sslsniff and under its peers: one program, one run, in alternation.

bcc's tool is Debian's (``bpfcc-tools``). Current kernels refuse it for a length that it does not
bound for them, so what runs is a copy with the bound. bpftrace runs a script that prints the first
64 bytes of each call, its default. eCapture runs where there is an ``ecapture`` on the PATH.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from bench.loads import MessageLoad, Messages, own_folder
from bench.rows import Row
from bench.watches import Sslsniff, Watch, compare
from tests.workload.debian import merge_headers

_LARGEST = 16384
_MESSAGES = {64: 60_000, 1024: 60_000, _LARGEST: 15_000}
_BATCHES = 512
_ROUNDS = 5
_PATIENCE_S = 60

_BCC_TOOL = Path("/usr/sbin/sslsniff-bpfcc")
_UNBOUNDED = "u32 buf_copy_size = min((size_t)MAX_BUF_SIZE, (size_t)len);"
_BOUNDED = """
u64 buf_copy_size = (u32)len;
asm volatile("" : "+r"(buf_copy_size));
if (buf_copy_size > MAX_BUF_SIZE)
    buf_copy_size = MAX_BUF_SIZE;
"""
_BPFTRACE = """
BEGIN { printf("ready\\n"); }
uprobe:LIBRARY:SSL_read, uprobe:LIBRARY:SSL_write { @buffer[tid] = arg1; }
uretprobe:LIBRARY:SSL_read, uretprobe:LIBRARY:SSL_write /@buffer[tid]/ {
    if ((int32)retval > 0) { printf("%d %s\\n", retval, str(@buffer[tid], retval)); }
    delete(@buffer[tid]);
}
"""


class _Peer(Watch):
    """Another tool, which is ready once it has written ``ready``."""

    ready = ""

    def command(self, program: MessageLoad) -> tuple[list[str], dict[str, str]]:
        """Return how it is run, and the variables that it needs."""
        raise NotImplementedError

    @contextlib.contextmanager
    def on(self, program: MessageLoad) -> Iterator[None]:
        """See ``Watch``."""
        command, variables = self.command(program)
        output = self.folder / "output"
        with output.open("w") as out:
            process = subprocess.Popen(
                command, stdout=out, stderr=subprocess.STDOUT, env={**os.environ, **variables}
            )
        try:
            deadline = time.monotonic() + _PATIENCE_S
            while self.ready not in output.read_text(errors="replace"):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"{self.name} does not start: {output.read_text()[-500:]}")
                time.sleep(0.05)
            yield
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a tool as Ctrl-C does, or else by force: bcc's loses the signal in its callback."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        process.send_signal(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(3)
            return


class Bcc(_Peer):
    """Debian's ``sslsniff-bpfcc``."""

    name = "bcc's sslsniff"
    ready = "FUNC"
    others: tuple[str, ...] = ("--no-gnutls", "--no-nss")

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        sources = Path("/usr/src")
        own = max(each.name for each in sources.glob("linux-headers-*-amd64"))
        self._headers = merge_headers(sources, own, folder / "headers")
        self._tool = folder / "bcc_sslsniff.py"
        self._tool.write_text(_BCC_TOOL.read_text().replace(_UNBOUNDED, _BOUNDED))

    def command(self, program: MessageLoad) -> tuple[list[str], dict[str, str]]:
        """See ``_Peer``."""
        command = ["/usr/bin/python3", "-u", str(self._tool), *self.others]
        return [*command, "-p", str(program.pid)], {"BCC_KERNEL_SOURCE": str(self._headers)}


class Bpftrace(_Peer):
    """A script of ten lines."""

    name = "bpftrace"
    ready = "ready"

    def command(self, program: MessageLoad) -> tuple[list[str], dict[str, str]]:
        """See ``_Peer``."""
        script = _BPFTRACE.replace("LIBRARY", program.library)
        return ["bpftrace", "-p", str(program.pid), "-e", script], {}


class Ecapture(_Peer):
    """Whatever eCapture is on the PATH, in its text mode."""

    name = "eCapture"
    ready = "started successfully"

    def command(self, program: MessageLoad) -> tuple[list[str], dict[str, str]]:
        """See ``_Peer``."""
        library = f"--libssl={program.library}"
        return ["ecapture", "tls", "-m", "text", library, f"--pid={program.pid}"], {}


def measure() -> Iterator[Row]:
    """Let the program send while nobody, sslsniff and the peers watch; compare."""
    with own_folder() as (folder, certificate):
        sslsniff = Sslsniff(folder)
        peers = [Bcc, Bpftrace, *([Ecapture] if shutil.which("ecapture") else [])]
        watches: list[Watch] = [sslsniff, *(peer(folder) for peer in peers)]
        with Messages(folder, certificate) as program:
            costs = compare(program, watches, _MESSAGES)
        to_write = f"to write a call's bytes into a file takes {_write_us(folder):.1f} us alone"
    for size in _MESSAGES:
        ours = costs[sslsniff.name, size]
        for watch in watches:
            cost = costs[watch.name, size]
            least = {1024: 40.0, _LARGEST: 60.0}.get(size) if cost is ours else None
            note = f"{sslsniff.lost_bytes} bytes of all sizes lost" if cost is ours else ""
            if note and size == _LARGEST:
                note += f"; {to_write}"
            yield Row(f"{size} B: rate left, {watch.name}", 100 * cost.rate, "%", None, note, least)
            yield Row(f"{size} B: added to a call, {watch.name}", cost.added_us, "us")
        for watch in watches[1:]:
            ratio = costs[watch.name, size].added_us / ours.added_us
            least = 5 if size < _LARGEST else None
            yield Row(f"{size} B: {watch.name} adds", ratio, "times", least=least)


def _write_us(folder: Path) -> float:
    """Return the microseconds of CPU that the kernel takes for the largest call's bytes."""
    batch = [bytes(_LARGEST)] * 64
    spent = []
    for _ in range(_ROUNDS):  # memory that the host has to get first is slow
        with (folder / "written").open("wb") as file:
            before = time.process_time()
            for _ in range(_BATCHES):
                os.writev(file.fileno(), batch)
            spent.append(time.process_time() - before)
    return 1e6 * min(spent) / (_BATCHES * len(batch))
