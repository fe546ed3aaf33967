"""What cannot be watched is told in one line with a remedy and an exit code, never a traceback."""

import contextlib
import os
import re
import resource
import subprocess
from pathlib import Path

import pytest

from sslsniff.capture.capture import LiveCapture
from sslsniff.capture.early_files import EarlyFiles
from sslsniff.capture.scope import Scope
from sslsniff.core.errors import KernelError, TargetError
from sslsniff.kernel import procfs
from sslsniff.kernel.loaders.loading import Loading
from sslsniff.kernel.mapping_events import Mappings
from tests.live import checks
from tests.live.checks import connections, run_under
from tests.live.refusals import NO_PROCESS, assert_told, sniff
from tests.live.sniffer import SSLSNIFF
from tests.workload.load import Load, parse_end
from tests.workload.passed import sha256
from tests.workload.processes import PROGRAMS, run, started
from tests.workload.servers import Certificate

RING_BYTES = 4 << 20


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("arguments", "fact"),
    [
        (["--lib", "/nonexistent.so"], "there is no file /nonexistent.so"),
        (["--lib", "nosuchlibrary"], "no library nosuchlibrary is installed or in use"),
        (["--lib", "{folder}"], "is not a file"),
        (["--lib", "{folder}/text.so"], "text.so is not an ELF file"),
        (["--lib", "{folder}/empty.so"], "empty.so is not an ELF file"),
        (["--lib", "{folder}/other.so"], "other.so, OpenSSL 3.0: it is for aarch64"),
        (["--lib", "{folder}/cut.so"], "cut.so is cut off or damaged"),
        (["--lib", "{folder}/pipe"], "is not a file"),
        (["--lib", "/dev/zero"], "is not a file"),
        (["--lib", "{library}"], "there is no TLS library in it"),
        (["--lib", "{folder}/\x1b[31m\x9b\u202e.so"], r"\\x1b\[31m\\x9b\\u202e.so"),
        (["read", "{folder}/\x1b[31m\x9b\u202e.pcap"], r"\\x1b\[31m\\x9b\\u202e.pcap"),
        (["--pid", NO_PROCESS], f"there is no process {NO_PROCESS}"),
        (["list", "--pid", NO_PROCESS], f"there is no process {NO_PROCESS}"),
        (["--", "/nonexistent/program"], "there is no program /nonexistent/program"),
        (["--", "{folder}/text.so"], "text.so is no program"),
        (["trace", "{folder}/text.so", "x"], "text.so is no program"),
        (["--", "{folder}/other.so"], "other.so is a program that may not be run"),
        (["--", "{folder}/script"], "cannot start .*script .Exec format error."),
    ],
)
def test_targets(arguments: list[str], fact: str, own_library: Path, tmp_path: Path) -> None:
    good = own_library.read_bytes()
    machine = 18  # Elf64_Ehdr.e_machine; 183 is EM_AARCH64
    (tmp_path / "other.so").write_bytes(good[:machine] + b"\xb7\0" + good[machine + 2 :])
    (tmp_path / "cut.so").write_bytes(good[:3000])
    (tmp_path / "text.so").write_text("no library\n")
    (tmp_path / "empty.so").touch()
    (tmp_path / "script").touch(0o755)
    os.mkfifo(tmp_path / "pipe")
    library = dict(procfs.libraries())["libc.so.6"]
    done = sniff(*(each.format(folder=tmp_path, library=library) for each in arguments))
    assert_told(done, fact)
    assert done.stdout == ""


@pytest.mark.heavy
def test_static_program(load: Load, certificate: Certificate, tmp_path: Path) -> None:
    """A program with OpenSSL linked in is captured; once it is stripped only that is known."""
    static = Load(tmp_path / "static")
    source = PROGRAMS / "c/load.c"
    run("gcc", "-O2", "-static", "-w", "-o", static.program, source, "-lssl", "-lcrypto")
    with load.receiver(certificate.certificate, certificate.key) as receiver:
        ran = run_under(
            tmp_path, *static.sender(receiver.port, 1, (100, 1000)), options=("--chunks",)
        )
    data = b"".join(checks.content(each["data"]) for each in ran.captured.of("chunk"))
    assert sha256(data) == parse_end(ran.stdout.decode()).sha256
    assert connections(ran.captured, library="openssl", comm="static", tls_version="TLS 1.3") == 1

    run("strip", static.program)
    assert_told(sniff("--lib", static.program), "OpenSSL: it is linked in without symbols")


def test_list_shows_names_escaped(certificate: Certificate, tmp_path: Path) -> None:
    """A process may give itself and its files any name."""
    library = tmp_path / "\x1b[31m\x9b\u202e\u200b.so"
    library.write_bytes(Path(dict(procfs.libraries())["libssl.so.3"]).read_bytes())
    script = (
        "import ctypes, sys; ctypes.CDLL(sys.argv[1]);"
        " open('/proc/self/comm', 'w').write('\\x1b]0;\\u202e'); print(flush=True); input()"
    )
    with started("python3", "-c", script, library) as process:
        assert process.stdout is not None
        process.stdout.readline()
        shown = run(SSLSNIFF, "list", "--pid", str(process.pid))
    assert all(line.isprintable() for line in shown.splitlines())
    assert r"\x1b]0;\u202e" in shown
    assert r"\x1b[31m\x9b\u202e\u200b.so" in shown


def test_zombie(bystander: str) -> None:
    zombie = subprocess.Popen(["true"])
    os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
    done = sniff("--pid", str(zombie.pid))
    zombie.wait()
    assert_told(done, f"there is no process {zombie.pid}")


@pytest.mark.parametrize("by_library", [False, True])
def test_gone_before_the_probes_stand(by_library: bool, own_library: Path) -> None:
    """A process that ends between the first look at it and the first probe."""
    process = subprocess.Popen(["sleep", "60"])
    libraries = (str(own_library),) if by_library else ()
    scope = Scope(pids=(process.pid,), libraries=libraries)
    load = Loading("auto", RING_BYTES).result
    capture = LiveCapture(
        EarlyFiles(scope), load, ring_bytes=RING_BYTES, call_limit_bytes=1, note=lambda _: None
    )
    process.kill()
    process.wait()
    try:
        with pytest.raises(TargetError, match="there is no process"), capture:
            pass
    finally:
        capture.close()


@pytest.mark.parametrize("room", [0, 1, 2 * (os.cpu_count() or 1) - 2])
def test_no_news_of_mapped_files(room: int) -> None:
    """The remedy is that of the reason: at the list of CPUs, at a ring, at the last CPU's news."""
    usual = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.ExitStack() as closing:
        closing.callback(resource.setrlimit, resource.RLIMIT_NOFILE, usual)
        lowest = os.dup(0)
        os.close(lowest)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + room, usual[1]))
        with pytest.raises(KernelError, match=r"\(Too many open files\): raise the limit of open"):
            Mappings()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--nosuch"],
        ["stray"],
        ["--pi", "1"],
        ["--pid"],
        ["--pid", "0"],
        ["--pid", "curl"],
        ["--pid", "99999999999999999999999"],
        ["--uid", "root"],
        ["--uid", "-1"],
        ["--frames", "--stream", "-1"],
        ["--frames", "--stream", str(1 << 31)],
        ["--uid", "99999999999"],
        ["--comm", ""],
        ["--lib="],
        ["-o", ""],
        ["--jsn"],
        ["\x1b[31m\u202e"],
        ["--sample", "0.1"],
        ["--sample", "0/10"],
        ["--sample", "11/10"],
        ["--spill", "1M"],
        ["--ring-size", "5000"],
        ["--ring-size", "2M"],
        ["--ring-size", "2G"],
        ["--max-call-bytes", "17M"],
        ["--max-call-bytes", "0"],
        ["--loader", "other"],
        ["--"],
        ["--all"],  # beside --pid
        ["read"],
        ["read", "one", "README.md"],
        ["list", "stray"],
        ["doctor", "stray"],
    ],
    ids=" ".join,
)
def test_usage(arguments: list[str], bystander: str) -> None:
    target = [] if arguments[0] in {"read", "list", "doctor"} else ["--pid", bystander]
    done = sniff(*target, *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    assert re.fullmatch(r"sslsniff( \w+)?: .+", line)
    assert line.isprintable()
    assert line.endswith("did you mean --json?") == ("--jsn" in arguments)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("option", ["--hold", "--no-children"])
def test_what_is_for_processes_that_are_named(option: str, own_library: Path) -> None:
    done = sniff(option, "--lib", str(own_library))
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (f"sslsniff: {option} needs --pid or -- COMMAND")
