"""Files of traced programs are parsed without rights, within limits, and one not by another."""

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sslsniff.core.errors import ElfError, FilterError, TargetError
from sslsniff.functions.conditions.condition_parser import parse_condition
from sslsniff.functions.places.plans import PlanOptions, WantedPlaces
from sslsniff.functions.workers import limits, tracing_worker
from sslsniff.functions.workers.file_reader import FileReaders, UnreadFileError
from sslsniff.functions.workers.read_code import LACK_FUNCTIONS, ReadCode
from sslsniff.functions.workers.read_plans import read_plans
from tests import hostile_files
from tests.unit.analysis.worker_status import assert_confined, opened, status
from tests.unit.functions.workers.looking import built, workers
from tests.workload.processes import wait_until

ALL = WantedPlaces(functions=(".",), options=PlanOptions(force=True))
LARGER = WantedPlaces(functions=("^larger$",))
REMEDY = "see readelf or objdump"


@pytest.fixture
def readers() -> Iterator[FileReaders]:
    with FileReaders() as readers:
        yield readers


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("program"), "traceme.c")


@pytest.mark.tools
def test_a_worker_has_no_rights_and_limits(program: Path, readers: FileReaders) -> None:
    readers.open(str(program))
    [pid] = workers(readers)
    assert_confined(pid, readers._process, limits.MOST_CPU_S, limits.MOST_MEMORY_BYTES)
    assert opened(pid) == {"traceme", "null", "socket"}
    assert int(status(readers._process.pid)["CapEff"], 16) == 0
    readers.close()
    wait_until(lambda: status(pid).get("State", "Z").startswith("Z"))


@pytest.mark.slow
def test_a_file_that_takes_too_long_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MOST_CPU_S", 1)
    path = hostile_files.symbol_tables(tmp_path / "hostile")
    with FileReaders() as readers:
        reader = readers.open(str(path))
        with pytest.raises(UnreadFileError) as raised:
            read_plans(reader, ALL)
        assert str(raised.value) == f"{path} takes more than 1 s of CPU: {REMEDY}"
        wait_until(lambda: not workers(readers))
        with pytest.raises(UnreadFileError, match="1 s of CPU"):
            read_plans(reader, ALL)


@pytest.mark.tools
@pytest.mark.parametrize("name", [".debug_info", ".debug_abbrev"])
def test_debug_info_that_takes_too_much_memory_is_refused(
    name: str, program: Path, tmp_path: Path, readers: FileReaders
) -> None:
    """The section has 3 GB, all of them a hole."""
    path = hostile_files.with_long_section(program, name, tmp_path / "hostile")
    assert path.stat().st_blocks * 512 < 1 << 20
    with pytest.raises(UnreadFileError) as raised:
        read_plans(readers.open(str(path)), LARGER)
    assert str(raised.value) == f"{path} takes more than 2 GB of memory: {REMEDY}"
    [plan] = read_plans(readers.open(str(program)), LARGER)
    assert plan.functions == 1


@pytest.mark.tools
def test_a_worker_that_dies_is_refused_and_others_go_on(
    program: Path, readers: FileReaders
) -> None:
    reader = readers.open(str(program))
    [pid] = workers(readers)
    other = readers.open(str(program))
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(UnreadFileError) as raised:
        read_plans(reader, LARGER)
    fact = f"{program} cannot be read: the process that did so ended or does not answer"
    assert str(raised.value) == f"{fact}: {REMEDY}"
    assert len(read_plans(other, LARGER)) == 1


@pytest.mark.tools
def test_one_that_does_not_answer_is_refused(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MOST_WAIT_S", 1)
    with FileReaders() as readers:
        reader = readers.open(str(program))
        os.kill(workers(readers)[0], signal.SIGSTOP)
        with pytest.raises(UnreadFileError, match="does not answer"):
            read_plans(reader, LARGER)


@pytest.mark.tools
def test_an_answer_that_is_not_waited_for_is_not_that_of_the_next_request(
    program: Path, readers: FileReaders, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trace can be ended while it waits for names; its summary may have names, too."""
    reader = readers.open(str(program))
    monkeypatch.setattr(reader, "_receive", interrupt)
    with pytest.raises(KeyboardInterrupt):
        read_plans(reader, LARGER)
    monkeypatch.undo()
    with pytest.raises(UnreadFileError, match="not read to its end: allow more time with"):
        read_plans(reader, LARGER)


def interrupt(_: int) -> None:
    raise KeyboardInterrupt


@pytest.mark.tools
def test_an_unknown_error_is_named(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setitem(tracing_worker.ANSWERS, "places", fails)
    with FileReaders() as readers, pytest.raises(ElfError) as raised:
        read_plans(readers.open(str(program)), LARGER)
    assert str(raised.value) == f"{program} cannot be read (ZeroDivisionError): {REMEDY}"


@pytest.mark.tools
def test_an_answer_that_takes_too_much_memory_is_refused(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message that is short enough may have a list for every three of its bytes."""
    monkeypatch.setitem(tracing_worker.ANSWERS, "code", lambda *_: [[]] * (8 << 20))
    with FileReaders() as readers:
        reader = readers.open(str(program))
        monkeypatch.setattr(limits, "MOST_MEMORY_BYTES", 128 << 20)
        with pytest.raises(UnreadFileError, match=f"{program} takes more than .* of memory"):
            reader.ask({"do": "code", "address": 0}, len)
        with pytest.raises(UnreadFileError, match="of memory"):
            read_plans(reader, LARGER)


@pytest.mark.tools
def test_errors_are_those_of_the_plan(program: Path, readers: FileReaders) -> None:
    reader = readers.open(str(program))
    with pytest.raises(TargetError, match="did you mean larger"):
        read_plans(reader, WantedPlaces(functions=("largre",)))
    when = parse_condition("b > 3 && c > 3")
    with pytest.raises(FilterError, match="c: no such argument: use ") as raised:
        read_plans(reader, LARGER._replace(options=PlanOptions(condition=when)))
    assert (raised.value.expression, raised.value.position) == ("b > 3 && c > 3", 9)
    with pytest.raises(ElfError, match="not an ELF file"):
        readers.open(__file__)


@pytest.mark.tools
def test_debug_files_are_opened_for_the_worker(
    program: Path, tmp_path: Path, readers: FileReaders, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the program has a relative path; one of another build is refused."""
    stripped = Path(shutil.copy(program, tmp_path / "program"))
    debug = tmp_path / ".debug" / "program.debug"
    debug.parent.mkdir()
    subprocess.run(["objcopy", "--only-keep-debug", program, debug], check=True)
    link = f"--add-gnu-debuglink={debug}"
    subprocess.run(["objcopy", "--strip-all", link, stripped], check=True)
    monkeypatch.chdir(tmp_path)
    for path in (str(stripped), "program"):
        [plan] = read_plans(readers.open(path), LARGER)
        assert list(plan.places[0].fetch.decoders) == ["a", "b"]
        assert plan.notes == ()
    other = built(tmp_path, "traceme.c", "-O2", "-Wl,--build-id=0x1234")
    subprocess.run(["objcopy", "--only-keep-debug", other, debug], check=True)
    with pytest.raises(ElfError, match="is the debug info of another build"):
        read_plans(readers.open(str(stripped)), LARGER)


@pytest.mark.tools
def test_a_worker_gets_no_file_that_is_no_elf_file(
    program: Path, tmp_path: Path, readers: FileReaders
) -> None:
    """Debug info names the file that it shares with others: a hostile one, any file."""
    secret = tmp_path / "secret"
    secret.write_text("of root")
    reader = readers.open(str(program))

    def asked(path: object) -> int:
        question = {"do": "trusted", "path": str(path)}
        with contextlib.ExitStack() as closing:
            return len(reader._open_beside(question, closing))

    assert [asked(each) for each in (secret, "/etc/shadow", "/dev/null")] == [0, 0, 0]
    assert asked(program) == 1
    program.chmod(0o777)
    assert asked(program) == 0
    program.chmod(0o755)


@pytest.mark.tools
def test_code_is_named_until_its_worker_fails(program: Path, readers: FileReaders) -> None:
    reported: list[str] = []
    reader = readers.open(str(program))
    [plan] = read_plans(reader, LARGER)
    address = plan.places[0].address
    code = ReadCode(reader, "traceme", reported.append)
    assert code.call_frame(address) is not None
    assert code.call_frame(0) is None
    [place] = code.places(address)
    assert (place.function, place.module, place.address) == ("larger", "traceme", address)
    assert place.file is not None
    assert place.file.endswith("traceme.c")
    os.kill(workers(readers)[0], signal.SIGKILL)
    assert code.places(address) == (place,)  # it is known
    [unknown] = code.places(address + 1)
    assert unknown[:4] == (None, None, None, False)
    assert code.call_frame(address + 1) is None
    [line] = reported
    assert line.startswith(f"{LACK_FUNCTIONS}: {program} cannot be read: the process ")
