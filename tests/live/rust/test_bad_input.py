"""Rust programs of which nothing can be shown: one line says why, and what to do about it."""

import re
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.live.checks import Sniff
from tests.live.sniffer import SSLSNIFF
from tests.workload.processes import PATIENCE_S, run, started
from tests.workload.rust.fixtures import REFUSED, Fixture, fixtures
from tests.workload.servers import Certificate

Done = subprocess.CompletedProcess[str]

BUILT = {each.profile: each.path for each in fixtures("blocking") if each.tls == "rustls-0-23-ring"}
RELEASE = re.compile(rb"rustls-0\.23\.(\d+)/src/")


def without_rustls(path: Path) -> None:
    run("rustc", "-", "-o", path, stdin='fn main() { println!("hello"); }')


def of_no_known_release(path: Path) -> None:
    path.write_bytes(RELEASE.sub(rb"rustls-0.77.\1/src/", BUILT["strip-symbols"].read_bytes()))


def without_source_paths(path: Path) -> None:
    """As ``--remap-path-prefix`` can leave it that tells nothing of where sources were."""
    data = BUILT["strip-symbols"].read_bytes()
    path.write_bytes(RELEASE.sub(lambda match: b"_" * len(match[0]), data))


def truncated(path: Path) -> None:
    data = BUILT["release"].read_bytes()
    path.write_bytes(data[: len(data) // 2])


def of_32_bits(path: Path) -> None:
    run("gcc", "-m32", "-nostdlib", "-shared", "-x", "c", "-", "-o", path, stdin="int a;")


NO_SYMBOLS = "its ciphers have no symbols, and"
BUILD = "build it with symbols, install its debug file, or watch the other end of its connections"
CASES = [
    (without_rustls, "there is no TLS library in it that sslsniff knows", "name a TLS library .*"),
    (
        of_no_known_release,
        rf"rustls 0\.77\.\d+: {NO_SYMBOLS} only those of 0.22, 0.23, 0.24 are found without",
        BUILD,
    ),
    (
        without_source_paths,
        f"rustls: {NO_SYMBOLS} no source paths tell its release",
        BUILD,
    ),
    (truncated, "program is cut off or damaged", "install it again"),
    (of_32_bits, "program is for 32-bit x86", "only x86-64 programs can be watched"),
]
WHY = {
    "rustls-0-20": "only those of 0.22, 0.23, 0.24 are found without",
    "rustls-0-21": "only those of 0.22, 0.23, 0.24 are found without",
    "rustls-0-23-ring": "nothing in the file looks like them",
}
each_case = pytest.mark.parametrize(
    ("make", "fact", "remedy"), CASES, ids=[make.__name__ for make, *_ in CASES]
)


def sslsniff(*arguments: str | Path) -> Done:
    return subprocess.run(
        [SSLSNIFF, *arguments], capture_output=True, text=True, timeout=PATIENCE_S
    )


@pytest.mark.heavy
@each_case
def test_lib(make: Callable[[Path], None], fact: str, remedy: str, tmp_path: Path) -> None:
    """The same when it is known from before."""
    make(tmp_path / "program")
    for _ in range(2):
        done = sslsniff("--lib", tmp_path / "program")
        [line] = done.stderr.splitlines()
        assert re.fullmatch(f"sslsniff: .*{fact}: {remedy}", line), line
        assert (done.returncode, done.stdout) == (1, "")


@pytest.mark.heavy
@pytest.mark.parametrize("fixture", fixtures("blocking", "server", builds=REFUSED), ids="-".join)
def test_refused(fixture: Fixture, record_property: Callable[[str, object], None]) -> None:
    why = f"its ciphers have no symbols, and {WHY[fixture.tls]}"
    done = sslsniff("--lib", fixture.path)
    [line] = done.stderr.splitlines()
    assert re.fullmatch(rf"sslsniff: .* rustls 0\.\d+\.\d+: {why}: {BUILD}", line), line
    assert done.returncode == 1
    record_property("why", why)


@pytest.mark.heavy
@each_case
def test_symbols(make: Callable[[Path], None], fact: str, remedy: str, tmp_path: Path) -> None:
    """Of what can be read its functions are listed, TLS or none."""
    make(tmp_path / "program")
    done = sslsniff("symbols", tmp_path / "program")
    if make is without_rustls:
        assert (done.returncode, done.stderr) == (0, "")
        return
    [line] = done.stderr.splitlines()
    no_symbols = "program: it has no symbols: build it with symbols, or install its debug file"
    assert re.fullmatch(f"sslsniff: .*({no_symbols}|{fact}: {remedy})", line), line
    assert done.returncode == 1


@pytest.mark.heavy
@pytest.mark.parametrize("make", [of_no_known_release, without_source_paths])
def test_running(
    make: Callable[[Path], None], certificate: Certificate, tmp_path: Path, sniff: Sniff
) -> None:
    """A process that cannot be watched: a capture and the list say why."""
    fact, remedy = next(each[1:] for each in CASES if each[0] is make)
    program = tmp_path / "program"
    make(program)
    program.chmod(0o755)
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        started(program, str(listener.getsockname()[1]), certificate.certificate, "1") as process,
        listener.accept()[0],  # the program waits for a server's part of the handshake
        sniff("--pid", str(process.pid)) as sniffer,
    ):
        captured = sniffer.stop()
        done = sslsniff("list", "--pid", str(process.pid))
    library, reason = fact.split(": ")
    [line] = captured.not_probed
    where = rf"in program\[{process.pid}\] \({program}\)"
    assert re.fullmatch(f"sslsniff: not probed: {library} {where}: {reason}; {remedy}", line)
    row = rf" {library}( -)+ not probed: {reason} \({remedy}\) "
    assert re.search(row, re.sub(" +", " ", done.stdout))
    assert (done.returncode, done.stderr) == (1, "")
