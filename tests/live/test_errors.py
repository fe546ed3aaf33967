"""What goes wrong is told in one line with a remedy, and in the exit code; never by a traceback."""

import json
import os
import re
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sslsniff import targets
from sslsniff.capture import LiveCapture
from sslsniff.kernel.loading import Loading
from tests.live import checks
from tests.live.checks import assert_passed, connections, run, run_under, seen
from tests.live.curl import Request, curl, gets, results
from tests.live.load import Load, told
from tests.live.sniffer import PATIENCE_S, SSLSNIFF
from tests.servers import PROGRAMS, Certificate, Server

ROOT = PROGRAMS.parent.parent
NO_PROCESS = Path("/proc/sys/kernel/pid_max").read_text().strip()  # one above the largest
NOBODY = "65534"
RING_BYTES = 4 << 20

Done = subprocess.CompletedProcess[str]


@pytest.fixture
def bystander() -> Iterator[str]:
    """Return the number of a process that does nothing."""
    process = subprocess.Popen(["sleep", "60"])
    yield str(process.pid)
    process.kill()
    process.wait()


def sniff(*arguments: str | Path, before: tuple[str | Path, ...] = (), **options: object) -> Done:
    return subprocess.run(
        [*before, SSLSNIFF, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=options.pop("stdout", subprocess.PIPE),
        stderr=subprocess.PIPE,
        text=True,
        timeout=PATIENCE_S,
        **options,
    )


def assert_told(done: Done, fact: str, *, code: int = 1) -> None:
    """One line, which says ``fact`` and then what to do; nothing in it that a terminal acts on."""
    [line] = done.stderr.splitlines()
    assert line.isprintable()
    assert re.fullmatch(rf"sslsniff: .*{fact}.*: .+", line), line
    assert done.returncode == code


@pytest.mark.parametrize(
    ("arguments", "fact"),
    [
        (["--lib", "/nonexistent.so"], "there is no file /nonexistent.so"),
        (["--lib", "nosuchlibrary"], "no library nosuchlibrary is installed or in use"),
        (["--lib", "{folder}"], "is not a file"),
        (["--lib", "{folder}/text.so"], "text.so is not an ELF file"),
        (["--lib", "{folder}/empty.so"], "empty.so is not an ELF file"),
        (["--lib", "{folder}/other.so"], "other.so, it is for aarch64"),
        (["--lib", "{folder}/cut.so"], "cut.so is cut off or damaged"),
        (["--lib", "{folder}/pipe"], "is not a file"),
        (["--lib", "/dev/zero"], "is not a file"),
        (["--lib", "{library}"], "there is no TLS library in it"),
        (["--lib", "{folder}/\x1b[31m\x9b\u202e.so"], r"\\x1b\[31m\\x9b\\u202e.so"),
        (["read", "{folder}/\x1b[31m\x9b\u202e.pcap"], r"\\x1b\[31m\\x9b\\u202e.pcap"),
        (["--pid", NO_PROCESS], f"there is no process {NO_PROCESS}"),
        (["list", "--pid", NO_PROCESS], f"there is no process {NO_PROCESS}"),
        (["--", "/nonexistent/program"], "there is no program /nonexistent/program"),
        (["--", "{folder}/text.so"], "text.so is not an executable program"),
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
    library = dict(targets.procfs.libraries())["libc.so.6"]
    done = sniff(*(each.format(folder=tmp_path, library=library) for each in arguments))
    assert_told(done, fact)
    assert done.stdout == ""


def test_static_program(load: Load, certificate: Certificate, tmp_path: Path) -> None:
    """A program with OpenSSL linked in is captured; once it is stripped nothing can be found."""
    static = Load(tmp_path / "static")
    source = PROGRAMS / "load.c"
    run("gcc", "-O2", "-static", "-w", "-o", static.program, source, "-lssl", "-lcrypto")
    with load.receiver(certificate.certificate, certificate.key) as receiver:
        ran = run_under(
            tmp_path, *static.sender(receiver.port, 1, (100, 1000)), options=("--chunks",)
        )
    data = b"".join(checks.content(each["data"]) for each in ran.captured.of("chunk"))
    assert checks.sha256(data) == told(ran.stdout.decode()).sha256
    assert connections(ran.captured, library="openssl", comm="static", tls_version="TLS 1.3") == 1

    run("strip", static.program)
    assert_told(sniff("--lib", static.program), "there is no TLS library in it")


def as_nobody(*arguments: str | Path) -> Done:
    """Run sslsniff without any right; the project is mounted where that user may read it."""
    script = 'mount --bind "$0" /mnt && cd / && exec "$@"'
    setpriv = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
    return subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, ROOT, *setpriv]
        + ["/mnt/.venv/bin/python", "-m", "sslsniff", *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env={**os.environ, "PYTHONPATH": "/mnt", "PYTHONDONTWRITEBYTECODE": "1", "HOME": "/"},
    )


@pytest.mark.parametrize(
    "arguments", [["--pid", "{pid}"], ["--lib", "{library}"], ["--", "true"]], ids=" ".join
)
def test_no_root(arguments: list[str], bystander: str, own_library: Path) -> None:
    done = as_nobody(*(each.format(pid=bystander, library=own_library) for each in arguments))
    assert_told(done, f"user {NOBODY}")


def test_list_without_root(server: Server) -> None:
    """What may not be looked into is counted; kernel threads have nothing to hide."""
    kernel_threads = {2, *map(int, run("ps", "--ppid", "2", "-o", "pid=").split())}
    processes = len(set(targets.procfs.pids()) - kernel_threads)
    done = as_nobody("list")
    told = re.fullmatch(
        r"(\d+) processes could not be looked into: run as root for the whole list\n", done.stdout
    )
    assert told is not None, done.stdout
    assert (done.returncode, done.stderr) == (1, "")
    assert 1 < int(told[1]) <= processes + 20  # others come and go meanwhile

    asked = as_nobody("list", "--pid", str(server.pid))
    assert asked.stdout.startswith("1 process could not be looked into: ")
    assert (asked.returncode, asked.stderr) == (1, "")
    as_root = run(SSLSNIFF, "list", "--pid", str(server.pid))
    assert "could not be" not in as_root
    assert re.search(rf"^{server.pid} .* openssl ", as_root, re.MULTILINE)


def test_doctor_without_root() -> None:
    """Each finding is a line, however long its remedy: others read it, too."""
    done = as_nobody("doctor")
    assert (done.returncode, done.stderr) == (1, "")
    _, *findings, verdict = done.stdout.splitlines()
    assert verdict == "sslsniff cannot capture here."
    assert all(re.match(r"(yes|no)  ", line) for line in findings), done.stdout
    assert max(map(len, findings)) > 80
    assert any(
        line.rstrip().endswith("run as root, or with these capabilities") for line in findings
    )


def test_doctor_for_a_bug_report_tells_of_no_host_and_no_user() -> None:
    for done in (as_nobody("doctor", "--json"), sniff("doctor", "--json")):
        [line] = done.stdout.splitlines()
        told = json.loads(line)
        assert (done.returncode, done.stderr) == (0 if told["able"] else 1, "")
        assert told["able"] == all(each["ok"] for each in told["findings"] if each["needed"])
        assert {each["what"] for each in told["findings"]} >= {"kernel", "privileges", "programs"}
        private = (socket.gethostname(), "nobody", str(ROOT), "/mnt", f"{Path.home()}/")
        assert [word for word in private if re.search(rf"\b{re.escape(word)}\b", line)] == []
        assert not re.search(r'[ "(]/(?!sys/)', line)


def test_list_shows_names_escaped(certificate: Certificate, tmp_path: Path) -> None:
    """A process may give itself and its files any name."""
    library = tmp_path / "\x1b[31m\x9b\u202e\u200b.so"
    library.write_bytes(Path(dict(targets.procfs.libraries())["libssl.so.3"]).read_bytes())
    script = (
        "import ctypes, sys; ctypes.CDLL(sys.argv[1]);"
        " open('/proc/self/comm', 'w').write('\\x1b]0;\\u202e'); print(flush=True); input()"
    )
    with checks.started("python3", "-c", script, library) as process:
        assert process.stdout is not None
        process.stdout.readline()
        shown = run(SSLSNIFF, "list", "--pid", str(process.pid))
    assert all(line.isprintable() for line in shown.splitlines())
    assert r"\x1b]0;\u202e" in shown
    assert r"\x1b[31m\x9b\u202e\u200b.so" in shown


def test_no_capabilities(bystander: str) -> None:
    """As root, but with no more right than others: in many containers it is like that."""
    done = sniff("--pid", bystander, before=("setpriv", "--bounding-set=-all", "--inh-caps=-all"))
    assert_told(done, "without CAP_BPF, CAP_PERFMON, CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH")


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
    scope = targets.Scope(pids=(process.pid,), libraries=libraries)
    load = Loading("auto", RING_BYTES).result
    capture = LiveCapture(
        scope, load, ring_bytes=RING_BYTES, call_limit_bytes=1, note=lambda _: None
    )
    process.kill()
    process.wait()
    try:
        with pytest.raises(targets.TargetError, match="there is no process"), capture:
            pass
    finally:
        capture.close()


@pytest.mark.parametrize(
    "target", [["--pid", NO_PROCESS], ["--lib", "/nonexistent.so"], ["--", "{folder}/script"]]
)
def test_an_error_leaves_no_file(target: list[str], tmp_path: Path) -> None:
    """What was there before is as it was, even where it should be overwritten."""
    there, script = tmp_path / "there", tmp_path / "script"
    there.write_text("kept\n")
    script.touch(0o755)
    outputs = ("-o", tmp_path / "new", "--pcap", there, "--force")
    done = sniff(*outputs, *(each.format(folder=tmp_path) for each in target))
    assert done.returncode == 1
    assert sorted(tmp_path.iterdir()) == [script, there]
    assert there.read_text() == "kept\n"


def test_outputs_are_refused_together(bystander: str, tmp_path: Path) -> None:
    there, new = tmp_path / "there", tmp_path / "new"
    there.write_text("kept\n")
    done = sniff("--pid", bystander, "-o", new, "--pcap", there)
    assert_told(done, "there exists already")
    done = sniff("--pid", bystander, "-o", new, "--pcap", f"{tmp_path}/./new")
    assert_told(done, "-o and --pcap both name .*new")
    assert list(tmp_path.iterdir()) == [there]


@pytest.mark.parametrize("option", ["--pcap", "-o"])
def test_outputs(option: str, bystander: str, tmp_path: Path) -> None:
    there, link = tmp_path / "there", tmp_path / "link"
    there.write_text("kept\n")
    link.symlink_to(there)
    for arguments, fact in (
        ((there,), "there exists already"),
        ((link,), "link is a symbolic link"),
        ((link, "--force"), "link is a symbolic link"),
        ((tmp_path,), "is a folder"),
        ((tmp_path / "no" / "file",), "cannot create .*: No such file or directory"),
        (("/dev/full",), "is not a regular file"),
    ):
        done = sniff("--pid", bystander, option, *arguments)
        assert_told(done, fact)
    assert there.read_text() == "kept\n"
    assert link.is_symlink()


def test_disk_full(server: Server, certificate: Certificate, tmp_path: Path) -> None:
    """A file system of 128 KiB: what came before stays readable, and the program undisturbed."""
    requests = [Request("/bytes/1000") for _ in range(150)]
    small, kept = tmp_path / "small", tmp_path / "kept"
    small.mkdir()
    kept.mkdir()
    script = (
        f"mount -t tmpfs -o size=128k none {small} && {{ "
        f'"$@"; code=$?; cp {small}/* {kept}; exit $code; }}'
    )
    for name, options in (("out.pcapng", ["--pcap"]), ("out.jsonl", ["--json", "-o"])):
        command = curl(server.url, requests, certificate, tmp_path)
        sniffed = [str(SSLSNIFF), *options, str(small / name), "--", *command]
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-c", script, "sh", *sniffed],
            capture_output=True,
            text=True,
            timeout=2 * PATIENCE_S,
        )
        assert_told(done, f"cannot write .*{name}: No space left on device")
        assert len(results(done.stdout, requests)) == 150

    lines = (kept / "out.jsonl").read_text("utf-8").splitlines()
    nonces = [each.nonce for each in requests]
    live = [each for each in map(json.loads, lines) if each["type"] == "exchange"]
    assert [seen(each).nonce for each in live] == nonces[: len(live)]
    assert 50 < len(live) < 150

    read = sniff("read", kept / "out.pcapng", "--json")
    assert (read.returncode, read.stderr) == (0, "")
    exchanges = [
        each for each in map(json.loads, read.stdout.splitlines()) if each["type"] == "exchange"
    ]
    whole = [each for each in exchanges if each["error"] is None]
    assert [seen(each).nonce for each in whole] == nonces[: len(whole)]
    assert len(exchanges) - len(whole) <= 1
    assert 50 < len(whole) < 150


def test_standard_output_full(server: Server, certificate: Certificate, tmp_path: Path) -> None:
    requests = gets(3)
    capture = tmp_path / "capture.pcapng"
    command = curl(server.url, requests, certificate, tmp_path)
    done = sniff("--pcap", capture, "--", *command)
    passed = results(done.stdout, requests)
    assert done.returncode == 0
    for option in ("--json", "--hexdump", "-v"):
        with Path("/dev/full").open("w") as full:
            assert_told(
                sniff("read", capture, option, stdout=full), "cannot write stdout: No space"
            )
    read = sniff("read", capture, "--json", "-o", tmp_path / "read.jsonl")
    assert read.returncode == 0
    lines = (tmp_path / "read.jsonl").read_text("utf-8").splitlines()
    captured = checks.Captured([json.loads(line) for line in lines], read.stderr, 0)
    assert_passed(captured, passed, role="client")


def test_captures_to_read(server: Server, certificate: Certificate, tmp_path: Path) -> None:
    """Not a capture: an error. A capture that is cut off: what stands before, and a warning."""
    (tmp_path / "text").write_text("no capture\n")
    (tmp_path / "empty").touch()
    for name, fact in (
        ("text", "text is not a capture file"),
        ("empty", "empty is empty"),
        ("nosuch", "cannot read .*nosuch: No such file or directory"),
        (".", "Is a directory"),
    ):
        done = sniff("read", tmp_path / name)
        assert_told(done, fact)
        assert done.stdout == ""

    requests = gets(20)
    for kind in ("pcap", "pcapng"):
        capture, cut = tmp_path / f"whole.{kind}", tmp_path / f"cut.{kind}"
        run(SSLSNIFF, "--pcap", capture, "--", *curl(server.url, requests, certificate, tmp_path))
        data = capture.read_bytes()
        cut.write_bytes(data[: len(data) // 2 + 1])
        done = sniff("read", cut, "--json")
        assert done.returncode == 0
        assert re.fullmatch(r"sslsniff: .*is cut off or damaged.*\n", done.stderr)
        lines = map(json.loads, done.stdout.splitlines())
        whole = [each for each in lines if each["type"] == "exchange" and not each["error"]]
        assert [seen(each).nonce for each in whole] == [
            each.nonce for each in requests[: len(whole)]
        ]
        assert 5 < len(whole) < 20


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
        ["read"],
        ["read", "one", "two"],
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
    *usage, line = done.stderr.splitlines()
    assert re.fullmatch(r"sslsniff( \w+)?: error: .+", line)
    assert line.isprintable()
    assert line.endswith("did you mean --json?") == ("--jsn" in arguments)
    assert usage[0].startswith("usage: sslsniff")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["list", "doctor", "--help", "--version", "read {capture}"])
@pytest.mark.parametrize(
    ("redirection", "code", "told"),
    [
        (">/dev/full", 1, "sslsniff: cannot write stdout: No space left on device: .+\n"),
        (">&-", 1, "sslsniff: there is no standard output: .+\n"),
        ("| true", 0, ""),
        (">/dev/full 2>/dev/full", 1, ""),
        (">&- 2>&-", 1, ""),
        (">/dev/null 2>&- <&-", 0, ""),
    ],
)
def test_standard_streams(
    command: str, redirection: str, code: int, told: str, server: Server
) -> None:
    """Full, closed, or read by nobody: one line where it can be told, and the right exit code."""
    if redirection.startswith(">&-") and command in {"--help", "--version"}:
        code, told = 0, "(?s).*"  # shown on standard error, where there is one
    capture = ROOT / "pcaps/http2-multiplexed.pcapng"
    script = f'"$0" {command.format(capture=capture)} {redirection}; exit "${{PIPESTATUS[0]}}"'
    done = subprocess.run(
        ["bash", "-c", script, SSLSNIFF],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
    )
    assert re.fullmatch(told, done.stderr), done.stderr
    assert done.returncode == code
