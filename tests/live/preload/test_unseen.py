"""What a preloaded library cannot see is named, with what would show it."""

import re
import shutil
from pathlib import Path

import pytest

from sslsniff.kernel import privileges
from sslsniff.libraries.unprobed import UNPROBED
from tests import libraries
from tests.live.checks import assert_whole, run_under
from tests.live.preload.running_as_nobody import run_as_nobody
from tests.live.refusals import sniff
from tests.workload.compiler import ZIG
from tests.workload.go.fixtures import BEFORE, NEWEST, Fixture
from tests.workload.nobody import as_nobody
from tests.workload.processes import run
from tests.workload.servers import Server

SUDO = "run sslsniff with sudo"
[ERLANG] = [kind for kind in UNPROBED if kind.library == "erlang"]
AT_ONCE = 30
SLEEPS = "import ssl, time; time.sleep(3)"
APART = ("unshare", "--map-root-user")


@pytest.mark.heavy
@pytest.mark.parametrize(("release", "mode"), [(BEFORE, "stripped"), (NEWEST, "plain")])
def test_go_is_named(release: str, mode: str, folder: Path) -> None:
    """A Go program loads no library: that is said at once, with what would show it."""
    program = folder / "client"
    shutil.copy(Fixture("client", release, mode).path, program)
    program.chmod(0o755)
    done = as_nobody("--json", "-o", folder / "captured.jsonl", "--", program)
    first = done.stderr.splitlines()[0]
    assert re.fullmatch(
        rf"sslsniff: not probed: go .*\({program}\): the program loads no libraries;"
        r" run sslsniff with sudo",
        first,
    ), done.stderr


@pytest.mark.heavy
@pytest.mark.parametrize("shell", [(), ("sh", "-c", '"$0"; true')], ids=["command", "child"])
def test_static_program_is_named(shell: tuple[str, ...], folder: Path) -> None:
    """At once, and one that the command starts while it runs."""
    source, program = folder / "sleeps.c", folder / "sleeps"
    source.write_text("#include <unistd.h>\nint main(void) { return (int)sleep(1); }\n")
    run("gcc", "-static", "-o", program, source)
    ran = run_as_nobody(folder, *shell, program)
    [line] = ran.captured.not_probed
    assert f"({program}): the program loads no libraries; run sslsniff with sudo" in line
    [row] = ran.captured.summary["not_probed"]
    assert row["library"] == "unknown"
    [line] = run_under(folder, *shell, program, engine="preload").captured.not_probed
    assert line.endswith("the program loads no libraries; leave out --engine preload")


def test_each_process_that_ends_at_once_counts(folder: Path) -> None:
    """It says itself what is in its memory: nobody else looks in time."""
    packaged = libraries.library("mbedtls-2.28").path
    for each in packaged.parent.glob("libmbed*.so.*"):
        shutil.copy(each, folder)
    library, source, program = folder / packaged.name, folder / "maps.c", folder / "maps"
    source.write_text(
        "#include <dlfcn.h>\n#include <unistd.h>\n"
        "int main(int n, char **path) { _exit(n < 2 || !dlopen(path[1], RTLD_LAZY)); }\n"
    )
    run("gcc", f"-Wl,--disable-new-dtags,-rpath,{folder}", "-o", program, source)
    script = f"for _ in $(seq {AT_ONCE}); do {program} {library} || exit; done"
    ran = run_as_nobody(folder, "sh", "-c", script)
    [line] = ran.captured.not_probed
    reason = "only the functions of OpenSSL, GnuTLS and NSS are wrapped"
    assert f"({library}): {reason}; run sslsniff with sudo" in line
    [row] = ran.captured.summary["not_probed"]
    assert (row["library"], row["processes"]) == ("mbedtls", AT_ONCE)


def test_root_without_rights() -> None:
    """As in a container: the remedy is not what the user has done already."""
    without = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
    static = ("/usr/sbin/ldconfig", "--version")
    done = sniff("--", *static, before=without)
    assert f"({static[0]}): the program loads no libraries; see sslsniff doctor" in done.stderr


@pytest.mark.heavy
def test_what_root_keeps(folder: Path) -> None:
    """The two capabilities to look at programs, and no other."""
    look = "sleep 1; grep -E 'Cap(Eff|Prm|Bnd)' /proc/$PPID/status"
    ran = run_under(folder, "sh", "-c", look, engine="preload")
    kept = [int(line.split()[1], 16) for line in ran.stdout.decode().splitlines()]
    names = ("CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH")
    assert kept == [sum(1 << privileges.NEEDED[name] for name in names)] * 3


@pytest.mark.heavy
@pytest.mark.parametrize(
    "shell", [(), ("sh", "-c", '"$@"; curl --version', "")], ids=["command", "child"]
)
def test_program_of_32_bits_is_named(shell: tuple[str, ...], folder: Path) -> None:
    """Its dynamic linker does not complain of a library for another architecture."""
    source, program = folder / "sleeps.c", folder / "sleeps"
    source.write_text("#include <unistd.h>\nint main(void) { return (int)sleep(1); }\n")
    compiler = (*ZIG, "cc", "-target", "x86-linux-gnu.2.28")
    run(*compiler, "-o", program, source)
    c_library = libraries.library("glibc", "i386").path
    shared = folder / "i386"
    shutil.copytree(c_library.parent, shared)
    command = (shared / "ld-linux.so.2", "--library-path", shared, program)
    ran = run_as_nobody(folder, *shell, *command)
    assert ran.stdout == (run(*shell, *command)).encode()
    assert ran.captured.stderr == ""
    [line] = ran.captured.not_probed
    assert f"({command[0]}): the program is for another processor; only x86-64" in line


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("before", "reason"),
    [
        (("env", "-i"), "the process was started without LD_PRELOAD"),
        (
            (*APART, "--mount", "sh", "-c", 'mount -t tmpfs none /mnt && exec "$@"', ""),
            "the process has other files, without sslsniff's library",
        ),
        (
            (*APART, "--fork", "--pid", "--mount-proc"),
            "the process has another /proc, or may not open sslsniff's memory",
        ),
    ],
    ids=["environment", "files", "proc"],
)
def test_process_without_the_library(before: tuple[str, ...], reason: str, folder: Path) -> None:
    ran = run_as_nobody(folder, *before, "/usr/bin/python3", "-c", SLEEPS)
    [line] = [each for each in ran.captured.not_probed if "python3" in each]  # mount is setuid
    assert re.search(rf"openssl 3.0 in python3\[\d+] \(.*/libssl.so.3\): {reason}; {SUDO}$", line)
    assert ("openssl", reason) in {
        (row["library"], row["reason"]) for row in ran.captured.summary["not_probed"]
    }


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("package", "library", "reason"),
    [
        ("grpc", "boringssl", "it is linked into a library"),
        ("mbedtls.tls", "mbedtls", "only the functions of OpenSSL, GnuTLS and NSS are wrapped"),
        ("awscrt.io", "s2n", "only the functions of OpenSSL, GnuTLS and NSS are wrapped"),
    ],
)
def test_library_that_is_not_wrapped(package: str, library: str, reason: str, folder: Path) -> None:
    program = ("/mnt/.cache/wheels/bin/python", "-c", f"import {package}, time; time.sleep(1)")
    ran = run_as_nobody(folder, *program)
    rows = {row["library"]: row["reason"] for row in ran.captured.summary["not_probed"]}
    assert rows == {library: reason}


@pytest.mark.heavy
def test_erlang_is_named(folder: Path) -> None:
    """Its TLS is in the code of its virtual machine, which the program may have no use for."""
    ran = run_as_nobody(folder, "erl", "-noshell", "-eval", "timer:sleep(1000), halt().")
    [row] = ran.captured.summary["not_probed"]
    assert (row["library"], row["reason"]) == ("erlang", ERLANG.reason)
    assert row["remedy"] == ERLANG.remedy


@pytest.mark.heavy
@pytest.mark.parametrize("is_seen", [True, False], ids=["seen", "unseen"])
def test_runtime_with_another_library(is_seen: bool, folder: Path) -> None:
    """A virtual machine is not named where its process has a library whose calls are seen."""
    source, program = folder / "machine.c", folder / "machine"
    functions = "".join(f"void {each}(void) {{}}\n" for each in ERLANG.exports)
    library = "libssl.so.3" if is_seen else "libz.so.1"
    source.write_text(f"""#include <dlfcn.h>
#include <unistd.h>
{functions}
int main(void) {{ return dlopen("{library}", RTLD_NOW) ? (int)sleep(2) : 1; }}
""")
    run("gcc", "-rdynamic", "-o", program, source)
    ran = run_as_nobody(folder, program)
    rows = [row["library"] for row in ran.captured.summary["not_probed"]]
    assert rows == ([] if is_seen else ["erlang"])


ASKS = """
import os, ssl, urllib.request
context = ssl._create_unverified_context()
urllib.request.urlopen("https://localhost:%d/bytes/5000", context=context).read()
print(os.getpid(), os.readlink("/proc/self"))
"""


def test_pid_namespace(server: Server, folder: Path) -> None:
    """Both numbers of the process are shown; sslsniff does not take the inner one for its own."""
    program = ("/usr/bin/python3", "-c", ASKS % server.port)
    ran = run_under(folder, "unshare", "--fork", "--pid", *program, engine="preload")
    inner, outer = map(int, ran.stdout.split())
    assert inner == 1
    [exchange] = ran.captured.exchanges
    assert (exchange["container_pid"], exchange["pid"], exchange["tid"]) == (inner, outer, outer)
    assert_whole(ran.captured)
