"""What a program does and gets is the same with the preloaded library as without."""

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from sslsniff.kernel import procfs
from sslsniff.preload.preload_environment import LIBRARY
from tests.live.checks import run_under
from tests.live.preload.test_threads import passed
from tests.live.refusals import sniff
from tests.live.sniffer import Captured
from tests.live.test_ways import seen
from tests.workload.processes import PATIENCE_S, PROGRAMS, run
from tests.workload.servers import Certificate

SOURCES = PROGRAMS / "c/preload"


def build(folder: Path, name: str, *options: str) -> Path:
    """Compile a program or, by its name, a plugin of tests/workload/c/preload."""
    shared = ("-shared", "-fPIC") if name.endswith("plugin") and "loads" not in name else ()
    made = folder / name
    warnings = ("-Wall", "-Wextra", "-Werror", "-Wno-address")
    linked = ("-pthread", "-ldl", *options)
    run("gcc", "-O1", *warnings, *shared, "-o", made, SOURCES / f"{name}.c", *linked)
    return made


def build_with_plugin(folder: Path, name: str, *options: str) -> Path:
    """Compile a program and the library that it is linked with: shallow_plugin.c."""
    plugin = build(folder, "shallow_plugin", "-Wl,-z,now")
    return build(folder, name, "-Wl,-z,now", f"-Wl,-rpath,{folder}", str(plugin), *options)


def assert_same(folder: Path, *command: str | Path, options: Iterable[str] = ()) -> Captured:
    """A program prints the same and ends alike, alone and under the library."""
    alone = subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=False)
    ran = run_under(folder, *map(str, command), engine="preload", options=["--chunks", *options])
    assert (ran.captured.code, ran.stdout) == (alone.returncode, alone.stdout)
    return ran.captured


def test_constructor_that_waits_for_a_thread(tmp_path: Path) -> None:
    """The thread's first socket call must not ask the dynamic linker, whose lock is taken."""
    plugin = build(tmp_path, "joining_plugin")
    assert_same(tmp_path, build(tmp_path, "loads_plugin"), plugin)


def test_first_send_while_a_library_is_loaded(tmp_path: Path) -> None:
    """The constructor of the library waits for the send."""
    plugin = build(tmp_path, "waiting_plugin")
    assert_same(tmp_path, build(tmp_path, "sends_while_loading", "-rdynamic"), plugin)


@pytest.mark.heavy
@pytest.mark.parametrize("is_begun", [True, False])
def test_dlsym_while_a_library_is_relocated(
    is_begun: bool, certificate: Certificate, tmp_path: Path
) -> None:
    """Nobody but the dynamic linker writes to the library's references; its calls are seen."""
    options = ("-Wl,-z,now", "-lssl", "-lcrypto")
    if is_begun:
        plugin = build(tmp_path, "slow_plugin", *options)
    else:
        needed = build(tmp_path, "slow_plugin", "-DALONE", "-Wl,-z,now")
        plugin = build(tmp_path, "tls_plugin", *options, "-Wl,--no-as-needed", str(needed))
    program = build(tmp_path, "asks_while_loading")
    ends = (certificate.certificate, certificate.key)
    captured = assert_same(tmp_path, program, plugin, *ends)
    assert [each["data"]["text"] for each in captured.of("chunk")] == ["asked"] * 2


@pytest.mark.parametrize("before", [(), ("libz.so.1",)], ids=["first", "after dlmopen"])
def test_library_that_a_plugin_needs(
    before: tuple[str, ...], certificate: Certificate, tmp_path: Path
) -> None:
    """It is seen once dlopen returns, also if the program asks for nothing by name after that."""
    needed = build(tmp_path, "tls_plugin", "-Wl,-z,now,-soname,tls_plugin", "-lssl", "-lcrypto")
    plugin = build(tmp_path, "offers_plugin", str(needed), f"-Wl,-rpath,{tmp_path}")
    program = build(tmp_path, "takes_offer", "-rdynamic")
    ends = (certificate.certificate, certificate.key)
    captured = assert_same(tmp_path, program, plugin, *ends, *before)
    assert [each["data"]["text"] for each in captured.of("chunk")] == ["asked"] * 2


@pytest.mark.parametrize("binding", ["lazy", "now"])
def test_no_function_that_is_not_there(binding: str, tmp_path: Path) -> None:
    """Weak references, dlsym and dlvsym find no function of a library that is not loaded."""
    program = build(tmp_path, "looks_for_tls", f"-Wl,-z,{binding}")
    assert_same(tmp_path, program)


MOST_COPIES = 16
BEYOND = 4


def test_many_copies_of_a_library(certificate: Certificate, tmp_path: Path) -> None:
    """Each call reaches its own copy; those beyond the limit work, and are counted."""
    library = Path(dict(procfs.libraries())["libssl.so.3"])
    copies = [tmp_path / str(number) / library.name for number in range(MOST_COPIES + BEYOND)]
    for copy in copies:
        copy.parent.mkdir()
        shutil.copy(library, copy)
    program = ("/usr/bin/python3", PROGRAMS / "python/tls_copies.py")
    captured = assert_same(tmp_path, *program, certificate.certificate, certificate.key, *copies)
    texts = [each["data"]["text"] for each in captured.of("chunk")]
    assert sorted(texts) == sorted(2 * [f"copy {number}" for number in range(MOST_COPIES)])
    assert f"TLS libraries beyond {MOST_COPIES} in one process: {BEYOND}" in captured.stderr
    assert named_copies(captured.not_probed, copies) == copies[MOST_COPIES:]


def named_copies(lines: list[str], copies: list[Path]) -> list[Path]:
    """Return those of the copies of OpenSSL that are said to be one too many."""
    reason = "the process has 16 other TLS libraries, and more cannot be wrapped; "
    said = [line for line in lines if reason in line and ": not probed: openssl in " in line]
    return [copy for copy in copies if any(f"({copy}): " in line for line in said)]


def test_small_signal_stack(tmp_path: Path) -> None:
    """The wrappers of socket calls fit on a signal stack that is hardly larger than its frame."""
    assert_same(tmp_path, build(tmp_path, "small_stack", "-Wl,-z,now"))


def test_stack(tmp_path: Path) -> None:
    """No call takes more than 512 bytes of stack, also the first one of a connection."""
    captured = assert_same(tmp_path, build_with_plugin(tmp_path, "stack_depth"))
    assert [each["data"]["text"] for each in captured.of("chunk")] == ["x"] * 4


def test_more_connections_than_there_is_room_for(tmp_path: Path) -> None:
    """Their calls work, and are counted."""
    captured = assert_same(tmp_path, build_with_plugin(tmp_path, "many_objects"))
    assert [each["data"]["text"] for each in captured.of("chunk")] == ["f"] * 2
    assert re.search(r"\d+ TLS calls were not captured: a table was full", captured.stderr)


@pytest.mark.parametrize("sanitizer", ["address", "thread", "leak", "undefined"])
def test_sanitizers(sanitizer: str, certificate: Certificate, tmp_path: Path) -> None:
    """A program that is built with one runs, also as a child, and its calls are seen."""
    program = sanitized(tmp_path, sanitizer)
    numbers = (4, 5, 100)
    ends = [*map(str, numbers), str(certificate.certificate), str(certificate.key)]
    captured = assert_same(tmp_path, "sh", "-c", '"$@"; exit $?', "", program, "memory", *ends)
    assert seen(captured) == passed(*numbers)


def sanitized(folder: Path, sanitizer: str) -> Path:
    """Build tests/workload/c/many_threads.c with a sanitizer."""
    program = folder / "program"
    options = ("-O1", "-pthread", f"-fsanitize={sanitizer}")
    run("gcc", *options, "-o", program, PROGRAMS / "c/many_threads.c", "-lssl", "-lcrypto")
    return program


@pytest.mark.heavy
def test_no_data_race_is_reported(certificate: Certificate, tmp_path: Path) -> None:
    """Threads write the same memory of the ring in turn, which ThreadSanitizer would report."""
    what = ("memory", "8", "150", "16000", certificate.certificate, certificate.key)
    command = (sanitized(tmp_path, "thread"), *what)
    captured = assert_same(tmp_path, *command, options=["--ring-size", "4M"])
    assert captured.of("chunk")


FUNCTIONS = {
    *("__errno_location", "__register_atfork", "clock_gettime", "dl_iterate_phdr", "getauxval"),
    *("pthread_atfork", "strlen"),
}
VARIABLES = {"__libc_single_threaded", "_r_debug", "environ"}


def test_functions_of_others() -> None:
    """The library calls only these; memcpy and memset, which sanitizers replace, are its own."""
    with LIBRARY.open("rb") as file:
        symbols = ELFFile(file).get_section_by_name(".dynsym")
        assert isinstance(symbols, SymbolTableSection)
        asked = {each.name for each in symbols.iter_symbols() if each["st_shndx"] == "SHN_UNDEF"}
    assert asked - {""} == FUNCTIONS | VARIABLES


def test_sanitizer_with_options_of_the_program(tmp_path: Path) -> None:
    """A program may have the function by which the library lets AddressSanitizer begin."""
    program = build_with_plugin(tmp_path, "sanitized", "-fsanitize=address")
    captured = assert_same(tmp_path, program)
    assert [each["data"]["text"] for each in captured.of("chunk")] == ["asked"]


@pytest.mark.parametrize("what", ["space", "data"])
def test_limits_of_memory(what: str, tmp_path: Path) -> None:
    """A program gets all that the limit which it sets leaves it; it is not watched any more."""
    captured = assert_same(tmp_path, build(tmp_path, "limits_memory", "-lssl", "-lcrypto"), what)
    assert "processes that began to limit or lock their memory: 1; " in captured.stderr


def test_locked_memory(tmp_path: Path) -> None:
    """The library's memory does not count for a program that may lock little."""
    without = ("setpriv", "--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock")
    limit = f"--memlock={8 << 20}"
    assert_same(tmp_path, "prlimit", limit, *without, build(tmp_path, "locks_memory"))


@pytest.mark.parametrize("limit", ["as", "data"])
def test_started_under_a_limit(limit: str, tmp_path: Path) -> None:
    """The command runs unwatched, which is said before it starts; a child of it is named."""
    program = build(tmp_path, "limits_memory", "-lssl", "-lcrypto")
    size = f"--{limit}={8 << 30}"
    child = assert_same(tmp_path, "prlimit", size, program, limit)
    assert child.of("connection") == []
    done = sniff("--engine", "preload", "--", str(program), limit, before=("prlimit", size))
    [line, *_] = done.stderr.splitlines()
    assert f"is limited to {8 << 30:,} bytes (ulimit -" in line
    assert done.returncode == 0


LIMITS_FILES = """
import os, resource, signal, subprocess
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
child = os.fork()
if not child:
    os._exit(0)
print(os.waitpid(child, 0)[1])
print(subprocess.run(["true"]).returncode)
"""


def test_limit_of_files(tmp_path: Path) -> None:
    """Children of a program that sets a limit which a ring is beyond are not killed for it."""
    assert_same(tmp_path, "/usr/bin/python3", "-c", LIMITS_FILES)


@pytest.mark.parametrize(("size", "is_seen"), [(100_000, False), (8 << 30, True)])
def test_started_under_a_limit_of_files(size: int, is_seen: bool, tmp_path: Path) -> None:
    """A ring is a file: a program that may not have one as large is not watched."""
    program, limit = build_with_plugin(tmp_path, "clones"), f"--fsize={size}"
    captured = assert_same(tmp_path, "prlimit", limit, program, "fork")
    assert bool(captured.of("chunk")) == is_seen
    options = ("--engine", "preload", "--chunks", "--", str(program), "fork")
    done = sniff(*options, before=("prlimit", limit))
    said = f"the size of files is limited to {size:,} bytes (ulimit -f)" in done.stderr
    assert (said, done.returncode) == (not is_seen, 0)


@pytest.mark.parametrize("way", ["fork", "clone", "clone3", "function"])
def test_child_by_a_system_call(way: str, tmp_path: Path) -> None:
    """A child that the program makes without libc's fork is watched, too."""
    captured = assert_same(tmp_path, build_with_plugin(tmp_path, "clones"), way)
    texts = [(each["pid"], each["data"]["text"]) for each in captured.of("chunk")]
    (parent, first), (child, second) = texts
    assert (first, second) == ("parent", "child")
    assert parent != child
    assert captured.not_probed == []


@pytest.mark.heavy
def test_forks_in_signal_handlers(certificate: Certificate, tmp_path: Path) -> None:
    """A child goes on in the middle of a wrapper, whose tables are empty there."""
    program = build(tmp_path, "forks_in_handlers", "-lssl", "-lcrypto")
    captured = assert_same(tmp_path, program, certificate.certificate, certificate.key)
    assert "overwrote" not in captured.stderr
    assert captured.summary["lost_bytes"] == 0


def test_forks_inside_of_records(certificate: Certificate, tmp_path: Path) -> None:
    """What the interrupted call passed is its parent's; after it, each has its own."""
    program = build(tmp_path, "forks_in_records", "-lssl", "-lcrypto")
    captured = assert_same(tmp_path, program, certificate.certificate, certificate.key)
    assert "overwrote" not in captured.stderr
    texts = Counter(each["data"]["text"] for each in captured.of("chunk"))
    forks = 5
    expected = ["parent 0", *(f"{who} {call}" for who in ("parent", "child") for call in (1, 2, 3))]
    assert texts == dict.fromkeys(expected, forks)
    assert captured.summary["lost_bytes"] == 0


@pytest.mark.parametrize("way", ["prctl", "syscall", "syscall-prctl"])
def test_filter_of_system_calls(way: str, certificate: Certificate, tmp_path: Path) -> None:
    """A program that allows itself only what it does is not killed; its bytes are seen."""
    program = build(tmp_path, "filtered_sockets", "-lssl", "-lcrypto")
    captured = assert_same(tmp_path, program, way, certificate.certificate, certificate.key)
    assert {each["data"]["text"] for each in captured.of("chunk")} == {"asked"}
    assert captured.summary["bytes"] == 2 * 500 * len("asked")


def test_program_under_a_filter(tmp_path: Path) -> None:
    """One that begins under a filter makes no system call for this library."""
    assert_same(tmp_path, build(tmp_path, "executes_under_filter"), "/bin/true")


def test_plugin_before_a_filter(tmp_path: Path) -> None:
    """What refers to a TLS library, and was not looked at before the filter, stays as it is."""
    build(tmp_path, "tls_plugin", "-Wl,-z,now", "-lssl", "-lcrypto")
    program = build(tmp_path, "plugin_before_filter", "-Wl,-rpath,$ORIGIN")
    captured = assert_same(tmp_path, program)
    assert "references that may be to one of several TLS libraries: " in captured.stderr


@pytest.mark.parametrize("names", ["named", "unnamed"])
def test_filter_that_nobody_sees(names: str, certificate: Certificate, tmp_path: Path) -> None:
    """The kernel is not asked what the program's own calls say: addresses, and what is a stream."""
    program = build(tmp_path, "unseen_filter", "-lssl", "-lcrypto")
    ends = (str(certificate.certificate), str(certificate.key))
    options = ["--chunks"]
    ran = run_under(tmp_path, program, names, *ends, engine="preload", options=options)
    assert ran.captured.code == 0
    client, server = map(int, ran.stdout.split())
    ports = {(each["client"]["port"], each["server"]["port"]) for each in ran.captured.of("chunk")}
    [(shown, _)] = ports
    assert ports == {(client or shown, server)}


@pytest.mark.parametrize("tags", ["enable", "disable"])
@pytest.mark.parametrize("binding", ["lazy", "now"])
def test_search_path_of_the_program(
    binding: str, tags: str, certificate: Certificate, tmp_path: Path
) -> None:
    """A plugin that only the program's own search path leads to is found, and is seen."""
    build(tmp_path, "tls_plugin", f"-Wl,-z,{binding}", "-lssl", "-lcrypto")
    path = f"-Wl,-rpath,$ORIGIN,--{tags}-new-dtags"
    program = build(tmp_path, "finds_plugin_nearby", path)
    captured = assert_same(tmp_path, program, certificate.certificate, certificate.key)
    assert [each["data"]["text"] for each in captured.of("chunk")] == ["asked"] * 2
