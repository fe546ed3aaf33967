"""What sslsniff cannot see it names: each TLS library in a watched process, and why."""

import contextlib
import json
import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from sslsniff.libraries.unprobed import UNPROBED
from tests import libraries
from tests.live.checks import Sniff, run_under
from tests.live.libraries.cases import Case
from tests.live.refusals import assert_told
from tests.live.refusals import sniff as sniff_once
from tests.live.sniffer import READY, SSLSNIFF, Captured
from tests.workload.debian import CACHE
from tests.workload.enclosure import enclosure, outer_pid
from tests.workload.nobody import as_nobody
from tests.workload.processes import PATIENCE_S, run, started
from tests.workload.rust.fixtures import REFUSED, fixtures
from tests.workload.servers import Certificate

WHEELS = CACHE / "wheels/bin/python"
LOADS = "import ctypes, sys; ctypes.CDLL(sys.argv[1]); input()"
NO_PROBES = "sslsniff cannot probe it yet"
NO_SYMBOLS = "it is linked in without symbols"
NOT_FOUND = r"its ciphers have no symbols, and only those of .* are found without"
PYTHON = Path(sys.executable).name
JSSE = next(each for each in UNPROBED if each.library == "jsse")
JIT = "its TLS runs in JIT-compiled code"


class Program(NamedTuple):
    """A program that waits, the ``file`` that it maps with a TLS library, and how that is shown."""

    command: tuple[str | Path, ...]
    file: str
    library: str
    shown: str
    reason: str = NO_PROBES


def loads(series: str, file: str, shown: str) -> Program:
    """Return a program that loads a library of Debian's."""
    library = libraries.library(series)
    command = (*library.loader, sys.executable, "-c", LOADS, library.path)
    return Program(command, file, series, shown)


def program(kind: str, certificate: Certificate, folder: Path) -> Program:
    """Return the program to watch; here what takes long to get is got."""
    if kind == "mbedtls":
        case = Case("mbedtls", "2.28-static", "plain")
        [built] = case.build(folder)
        run("strip", built)
        command = (built, *case.arguments("server"), certificate.certificate, certificate.key)
        return Program(command, "/mbedtls-2.28", "mbedtls", r"Mbed TLS( 2\.\d+\.\d+)?", NO_SYMBOLS)
    if kind == "java":
        return Program(("rmiregistry", "0"), "libjvm.so", "jsse", r"Java \(JSSE\) \d[\d.+]*", JIT)
    if kind == "rustls":
        [server] = fixtures("server", builds=REFUSED[1:2])
        files = (certificate.certificate, certificate.key)
        shown = r"rustls 0\.21\.\d+"
        return Program((server.path, *files), server.path.name, "rustls", shown, NOT_FOUND)
    raise ValueError(kind)


@contextlib.contextmanager
def waiting(*command: str | Path, file: str) -> Iterator[int]:
    """Run a program; yield its number when it has mapped a file with ``file`` in its name."""
    with started(*command) as process:
        maps = Path(f"/proc/{process.pid}/maps")
        deadline = time.monotonic() + PATIENCE_S
        while not re.search(rf"r-xp .*{re.escape(file)}", maps.read_text()):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield process.pid


def only(captured: Captured) -> dict[str, Any]:
    """Return the one library that a capture names; its line was shown once."""
    [line] = captured.not_probed
    [found] = captured.summary["not_probed"]
    assert found["reason"] in line
    assert found["file"] in line
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(
    "kind",
    ["mbedtls", *(pytest.param(each, marks=pytest.mark.heavy) for each in ("java", "rustls"))],
)
def test_a_library_is_named(
    kind: str, certificate: Certificate, tmp_path: Path, sniff: Sniff
) -> None:
    """In a line, in the summary and in the list, with its file, the process and the reason."""
    watched = program(kind, certificate, tmp_path)
    with waiting(*watched.command, file=watched.file) as pid:
        with sniff("--pid", str(pid)) as sniffer:
            captured = sniffer.stop()
        listed = sniff_once("list", "--pid", str(pid))
    assert (captured.code, captured.exchanges) == (0, [])
    found = only(captured)
    assert (found["library"], found["pid"], found["processes"]) == (watched.library, pid, 1)
    assert watched.file in found["file"]
    assert re.fullmatch(watched.reason, found["reason"])
    [line] = captured.not_probed
    path = re.escape(found["file"])
    expected = rf"sslsniff: not probed: {watched.shown} in .+\[{pid}\] \({path}\): {watched.reason}"
    assert re.match(expected, line), line
    row = rf"^{pid} \S+ {watched.shown}( -)+ not probed: {watched.reason} .* {path}$"
    assert re.search(row, unfolded(listed.stdout), re.MULTILINE), listed.stdout
    assert "no TLS library" not in listed.stdout


def unfolded(table: str) -> str:
    """Return a table with no more than one space between words."""
    return re.sub(" +", " ", table)


def test_two_in_one_process(sniff: Sniff) -> None:
    """Python's own OpenSSL and the BoringSSL in an extension are probed."""
    with waiting(WHEELS, "-c", "import ssl, grpc; input()", file="cygrpc") as pid:
        with sniff("--pid", str(pid)) as sniffer:
            captured = sniffer.stop()
        rows = sniff_once("list", "--pid", str(pid)).stdout.splitlines()[1:]
    assert captured.not_probed == []
    assert "watching 2 files" in captured.stderr
    assert sorted(row.split()[2] for row in rows) == ["BoringSSL", "OpenSSL"]


def brief() -> list[str]:
    """Return a program that loads Java's virtual machine, and ends."""
    return [sys.executable, "-c", LOADS.replace("; input()", ""), str(libraries.java())]


@pytest.mark.heavy
def test_a_command(tmp_path: Path) -> None:
    """As soon as it loads the library, and at the end: a zero has its reason beside it."""
    captured = run_under(tmp_path, *brief()).captured
    assert (captured.code, captured.exchanges, captured.stderr) == (0, [], "")
    found = only(captured)
    assert (found["library"], found["comm"], found["files"]) == ("jsse", PYTHON, 1)

    shown = sniff_once("--", *brief()).stderr.splitlines()
    told, zero, silent, again = shown
    assert re.match(
        rf"sslsniff: not probed: Java \(JSSE\) \S+ in {PYTHON}\[\d+\] \(/.*libjvm\.so", told
    )
    assert zero.startswith("0 exchanges")
    assert silent == "no TLS handshake was seen"
    assert f"sslsniff: {again}" == told


@pytest.mark.heavy
def test_a_child_of_a_command(tmp_path: Path) -> None:
    captured = run_under(tmp_path, "sh", "-c", '"$@"; true', "sh", *brief()).captured
    assert captured.exchanges == []
    assert (only(captured)["library"], only(captured)["comm"]) == ("jsse", PYTHON)


@pytest.mark.heavy
def test_one_that_comes_later(sniff: Sniff) -> None:
    """It is named once, at the end, and both processes count."""
    script = 'read word; for each in 1 2; do "$@"; done; echo done; read word'
    with started("sh", "-c", script, "sh", *brief()) as shell:
        assert shell.stdin is not None
        assert shell.stdout is not None
        with sniff("--pid", str(shell.pid)) as sniffer:
            assert "not probed" not in sniffer.errors.read_text()
            shell.stdin.write("go\n")
            shell.stdin.flush()
            assert shell.stdout.readline() == "done\n"
            # A virtual machine without connections: it may still load a library with probes.
            assert "not probed" not in sniffer.errors.read_text()
            captured = sniffer.stop()
    assert only(captured)["processes"] == 2


@pytest.mark.heavy
def test_a_library_that_was_asked_for() -> None:
    path = libraries.java()
    assert_told(sniff_once("--lib", path), rf"nothing to probe in {path}, Java \(JSSE\) \S+: {JIT}")


def inside(folder: Path, *arguments: str) -> Captured:
    """Watch a process with Java's library from before, two from later, in their own namespaces.

    The later ones have ended before sslsniff gets a CPU to look at them.
    """
    output = folder / "captured.jsonl"
    with enclosure(folder) as made, contextlib.ExitStack() as ending:
        code = LOADS.replace("input()", "print(flush=True); input()")
        before = ending.enter_context(made.started(sys.executable, "-c", code, libraries.java()))
        assert before.stdout is not None
        before.stdout.readline()
        sniff_all = (str(SSLSNIFF), *arguments, "--json", "-o", str(output))
        sniffer = ending.enter_context(made.started(*sniff_all))
        assert sniffer.stderr is not None
        said = ""
        while READY not in said:
            line = sniffer.stderr.readline()
            assert line, said
            said += line
        pid = outer_pid(sniffer.pid)
        os.kill(pid, signal.SIGSTOP)
        for _ in range(2):
            assert made.run(*brief()).returncode == 0
        for each in (sniffer.pid, pid):  # nsenter(1) stops where its child does
            os.kill(each, signal.SIGCONT)
        os.kill(pid, signal.SIGINT)
        _, rest = sniffer.communicate(timeout=PATIENCE_S)
    lines = [json.loads(line) for line in output.read_text("utf-8").splitlines()]
    return Captured(lines, said + rest, sniffer.returncode)


@pytest.mark.heavy
def test_the_whole_host(tmp_path: Path) -> None:
    """A line for a library, with how many use it; the same one in two files counts as one."""
    captured = inside(tmp_path, "--all")
    found = captured.summary["not_probed"]
    java = [each for each in found if each["library"] == "jsse"]
    assert sum(each["processes"] for each in java) == 3
    assert len(captured.not_probed) == len(found)
    assert [(each["files"], each["processes"]) for each in java] == [(1, 3)]


@pytest.mark.heavy
def test_only_processes_with_a_name(tmp_path: Path) -> None:
    found = only(inside(tmp_path, "--comm", PYTHON))
    assert (found["library"], found["comm"], found["processes"]) == ("jsse", PYTHON, 3)


@pytest.mark.heavy
@pytest.mark.parametrize(("uid", "count"), [("0", 3), ("1", 0)])
def test_only_processes_of_a_user(tmp_path: Path, uid: str, count: int) -> None:
    captured = inside(tmp_path, "--uid", uid)
    found = [each for each in captured.summary["not_probed"] if each["library"] == "jsse"]
    assert sum(each["processes"] for each in found) == count


def test_nothing_typed_shows_what_can_be() -> None:
    """The whole host is watched only by who types that. Run without the rights to do it."""
    done = as_nobody()
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("usage: sslsniff [FILTER] WHAT [OUTPUT]\n")
    assert "\n  sslsniff --all  " in done.stderr
    assert max(map(len, done.stderr.splitlines())) <= 80
    for arguments in (["-v"], ["~c 500"], ["--json"], ["--sample", "1/10"]):
        done = as_nobody(*arguments)
        assert done.returncode == 2
        assert "what to watch is missing: --pid, " in done.stderr.splitlines()[-1]


def test_the_whole_host_stands_alone() -> None:
    """Run without the rights to watch anything."""
    others = (["--pid", "1"], ["--comm", "none"], ["--uid", "1"], ["--lib", "x"], ["--", "true"])
    for each in others:
        done = as_nobody("--all", *each)
        assert done.returncode == 2
        assert "sslsniff: --all watches every process" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("library", ["libssl.so.3", "libz.so.1"])
def test_a_runtime_that_uses_another_library(library: str, tmp_path: Path) -> None:
    """A virtual machine of Java is not named where its process has a library with probes."""
    source, program = tmp_path / "machine.c", tmp_path / "machine"
    functions = "".join(f"void {each}(void) {{}}\n" for each in JSSE.exports)
    source.write_text(f"""#include <dlfcn.h>
{functions}
int main(void) {{ return !dlopen("{library}", RTLD_NOW); }}
""")
    run("gcc", "-rdynamic", "-o", program, source)
    ran = run_under(tmp_path, program)
    rows = [row["library"] for row in ran.captured.summary["not_probed"]]
    assert rows == (["jsse"] if library == "libz.so.1" else [])
