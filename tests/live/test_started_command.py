"""A started command is as its shell started it, and gets signals as from its terminal."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sslsniff.kernel import procfs
from tests.live.refusals import sniff, without_library
from tests.live.sniffer import LOADER, READY, SSLSNIFF
from tests.workload.load import Load
from tests.workload.processes import PATIENCE_S, next_line, say, started
from tests.workload.servers import Certificate

ENGINES = pytest.mark.parametrize("engine", ["probes", "preload"])
MANY_CALLS = 200_000  # more than can be decoded in 0.35 s
STATE = """
import os, resource, signal, sys
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
names = ("SigBlk", "SigIgn", "Umask", "NoNewPrivs", "Seccomp", "CapInh", "CapPrm", "CapEff")
print(*(status[name].strip() for name in (*names, "CapBnd", "CapAmb", "Groups", "Uid", "Gid")))
print(open("/proc/self/limits").read())
print(open("/proc/self/cgroup").read(), open("/proc/self/oom_score_adj").read())
for each in sorted(os.listdir("/proc/self/fd"), key=int):
    try:
        print(each, os.readlink(f"/proc/self/fd/{each}"))
    except OSError:  # of this listing
        pass
fields = open("/proc/self/stat").read().rpartition(")")[2].split()
print("session", fields[3] == os.environ["SESSION"], "terminal", fields[4], "nice", fields[16])
print("group", os.getpgid(0) == int(os.environ["GROUP"]), os.getcwd())
print("processors", os.sched_getaffinity(0), "policy", os.sched_getscheduler(0))
for each in ("timerslack_ns", "personality", "coredump_filter"):
    print(each, open(f"/proc/self/{each}").read())
for each in sorted(os.listdir("/proc/self/ns")):
    print(os.readlink(f"/proc/self/ns/{each}"))
"""
OURS = "^(LD_PRELOAD|SSLSNIFF_RING|_|SHLVL)="
SETTINGS = (
    "ulimit -n 512; ulimit -c 0; umask 027; cd /;"
    " exec 7</dev/null 8>/dev/null; SESSION=$(ps -o sid= -p $$ | tr -d ' '); export SESSION;"
    " GROUP=$(ps -o pgid= -p $$ | tr -d ' '); export GROUP; unset LC_ALL; export LANG=C;"
    " echo 0x33 >/proc/self/coredump_filter;"
    ' nice -n 3 chrt --batch 0 taskset -c 0 env --block-signal=USR1 "$@"; exit $?'
)


def sniffed(engine: str, *command: str | Path) -> list[str | Path]:
    loader = ("--loader", LOADER) if engine == "probes" else ()
    output = ("--json", "-o", "/dev/null")
    return [SSLSNIFF, "--engine", engine, *loader, *output, "--", *command]


@ENGINES
@pytest.mark.parametrize("ignored", ["HUP INT QUIT TERM USR2", "PIPE XFSZ", "PIPE"])
def test_its_state_is_that_without_sslsniff(engine: str, ignored: str, tmp_path: Path) -> None:
    """Signals, masks, limits, rights, descriptors, umask, nice, cgroup, session, environment."""
    script = tmp_path / "state.py"
    script.write_text(STATE)
    # Before Python ignores more, and sets a variable.
    ignored_now = "grep SigIgn /proc/self/status"
    variables = f"tr '\\0' '\\n' </proc/self/environ | grep -Ev '{OURS}' | sort"
    run = f'{ignored_now}; {variables}; exec /usr/bin/python3 -I "$1"'
    command: list[str | Path] = ["sh", "-c", run, "sh", script]

    def state(*arguments: str | Path) -> str:
        done = subprocess.run(
            ["sh", "-c", f"trap '' {ignored}; {SETTINGS}", "sh", *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=True,
        )
        return re.sub(r"pipe:\[\d+\]", "pipe", done.stdout)

    assert state(*sniffed(engine, *command)) == state(*command)


def test_a_unit_of_systemd_ignores_broken_pipes() -> None:
    """As its manual says (systemd.exec(5), IgnoreSIGPIPE); it names the process that it started."""
    asked = ("sh", "-c", 'SYSTEMD_EXEC_PID=$$ exec "$@"', "sh")
    command = sniffed("preload", "grep", "SigIgn", "/proc/self/status")
    done = subprocess.run([*asked, *command], capture_output=True, text=True, timeout=PATIENCE_S)
    assert int(done.stdout.split()[1], 16) >> (signal.SIGPIPE - 1) & 1


@ENGINES
def test_a_hang_up_that_is_ignored_ends_neither(engine: str) -> None:
    """As after nohup: the command lives, and sslsniff goes on watching it."""
    script = 'trap "" HUP; exec "$@"'
    command = sniffed(engine, "sh", "-c", "echo $$; read line; echo $line")
    with started("sh", "-c", script, "sh", *command) as process:
        pid = int(next_line(process))
        for each in (pid, process.pid):
            os.kill(each, signal.SIGHUP)
        assert process.stdin is not None
        process.stdin.write("still here\n")
        process.stdin.flush()
        assert next_line(process) == "still here"
        assert process.wait(PATIENCE_S) == 0


def test_a_capture_after_nohup_goes_on(tmp_path: Path) -> None:
    script = 'trap "" HUP; exec "$@"'
    with started("sleep", "1000") as target:
        output = tmp_path / "out.pcapng"
        command: list[str | Path] = [SSLSNIFF, "--pid", str(target.pid), "--pcap", output]
        with started("sh", "-c", script, "sh", *command, stderr=subprocess.PIPE) as process:
            assert process.stderr is not None
            assert process.stderr.readline().startswith(READY)
            time.sleep(0.2)
            process.send_signal(signal.SIGHUP)
            target.kill()
            said = process.stderr.read()
            assert process.wait(PATIENCE_S) == 0
    assert f"sslsniff: process {target.pid} ended\n" in said
    assert "0 connections" in said


def interrupted(engine: str, script: str) -> tuple[int, str]:
    """Run a script under sslsniff, press Ctrl-C when it is ready; return code and words."""
    process = subprocess.Popen(
        sniffed(engine, sys.executable, "-c", script),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    os.killpg(process.pid, signal.SIGINT)
    code = process.wait(PATIENCE_S)
    with_pid = process.stderr.read(1 << 16) if code != 130 and process.stderr else ""
    if code == 130 and process.stderr is not None:
        with_pid = process.stderr.readline()
    os.killpg(process.pid, signal.SIGKILL) if code == 130 else None
    process.stdout.close()
    assert process.stderr is not None
    process.stderr.close()
    return code, with_pid.replace(str(pid), "PID")


@ENGINES
def test_ctrl_c_ends_what_the_command_does_not_end_for(engine: str) -> None:
    script = (
        "import os, signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN);"
        "print(os.getpid(), flush=True); time.sleep(1000)"
    )
    code, said = interrupted(engine, script)
    assert (code, said) == (130, "sslsniff: process PID continues, and is not watched any more\n")


@ENGINES
def test_ctrl_c_waits_for_a_command_that_ends(engine: str) -> None:
    script = (
        "import os, signal, sys, time;"
        "signal.signal(signal.SIGINT, lambda *_: (time.sleep(0.3), os._exit(9)));"
        "print(os.getpid(), flush=True); time.sleep(1000)"
    )
    code, said = interrupted(engine, script)
    assert (code, said) == (9, "")


@ENGINES
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_before_the_command_runs(
    engine: str, number: signal.Signals, tmp_path: Path
) -> None:
    """Neither the command nor a word; the exit code is that of a program that ends by it."""
    ran = tmp_path / "ran"
    process = subprocess.Popen(
        sniffed(engine, "touch", ran),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    count = 2 if engine == "probes" else 1  # what holds it, and the command
    while len(children.read_text().split()) < count:
        assert process.poll() is None
    os.killpg(process.pid, number)
    said, _ = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, said) == (-number, "")
    assert not ran.exists()


@pytest.mark.heavy
def test_ctrl_c_ends_a_process_watched_beside_a_command() -> None:
    with started("sleep", "1000") as target:
        command = sniffed("probes", "echo", "over")
        command[1:1] = ["--pid", str(target.pid)]
        with started(*command) as process:
            assert next_line(process) == "over"
            time.sleep(0.3)
            assert process.poll() is None
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE_S) == 0


def test_root_without_rights_gets_a_remedy_that_it_can_follow() -> None:
    """As in a container."""
    without = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
    done = subprocess.run(
        [*without, SSLSNIFF, "--pid", "1"], capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 1
    assert "run it as root" not in done.stderr
    assert "docker run --cap-add BPF --cap-add PERFMON" in done.stderr


def test_a_command_is_watched_without_libbpf() -> None:
    """By the preloaded library, and a line says so."""
    library = dict(procfs.libraries())["libbpf.so.1"]
    done = sniff("--", "echo", "ran", before=without_library(library))
    assert (done.returncode, done.stdout) == (0, "ran\n")
    assert "libbpf.so.1 is not installed" in done.stderr
    assert "a library is preloaded into the command" in done.stderr


TRACED = """#!/usr/bin/python3 -I
import ctypes
print("traced" if ctypes.CDLL(None).ptrace(0, 0, 0, 0) else "free")
"""


@pytest.mark.parametrize(
    ("name", "options", "state"),
    [("other", [], "traced"), ("other", ["--no-hold"], "free"), ("strace", [], "free")],
)
def test_a_tracer_is_not_held(name: str, options: list[str], state: str, tmp_path: Path) -> None:
    """A process has one tracer: strace could not trace what it starts (PTRACE_TRACEME)."""
    program = tmp_path / name
    program.write_text(TRACED)
    program.chmod(0o755)
    sniffer, *command = sniffed("probes", program)
    done = subprocess.run([sniffer, *options, *command], capture_output=True, text=True, check=True)
    assert done.stdout == f"{state}\n"
    assert ("strace traces what it starts" in done.stderr) == (name == "strace")


@pytest.mark.heavy
@ENGINES
def test_it_goes_on_and_something_is_missing(
    engine: str, load: Load, certificate: Certificate, tmp_path: Path
) -> None:
    """SIGTERM leaves the command running: the exit code is that of sslsniff."""
    script = 'echo ready; read line; "$@" >/dev/null; echo sent; exec sleep 60 2>&-'
    how = ("--engine", engine, *(("--loader", LOADER) if engine == "probes" else ()))
    options: list[str | Path] = ["--chunks", "-o", tmp_path / "out", "--ring-size", "64M"]
    options += ["--end-within", "1", *how]
    with load.receiver(certificate.certificate, certificate.key) as receiver:
        sender = load.sender(receiver.port, 1, (MANY_CALLS, 50))
        command = (SSLSNIFF, *options, "--", "sh", "-c", script, "sh", *sender)
        with started(*command, stderr=subprocess.PIPE) as process:
            assert next_line(process) == "ready"
            process.send_signal(signal.SIGSTOP)
            say(process, "go")
            assert next_line(process) == "sent"
            process.send_signal(signal.SIGTERM)
            process.send_signal(signal.SIGCONT)
            assert process.stderr is not None
            said = process.stderr.read()
            assert process.wait(PATIENCE_S) == 1
            [pid] = re.findall(r"process (\d+) continues, and is not watched any more", said)
            os.kill(int(pid), signal.SIGKILL)
    assert "of plaintext not decoded" in said
