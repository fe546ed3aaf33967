"""Files are planned apart from the capture: within limits, without rights, one not by another."""

import contextlib
import json
import mmap
import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sslsniff.analysis import file_analyzer as planning_module
from sslsniff.analysis import result_cache
from sslsniff.analysis.analysis_process import AnalysisProcess
from sslsniff.analysis.file_analyzer import FileAnalyzer
from sslsniff.analysis.queue import Job
from sslsniff.elf import debug_files
from sslsniff.elf.elf_file import open_file
from sslsniff.elf.wanted_files import WantedDebugFile
from sslsniff.matching.probe_set import Attachment, Refusal, ReturnStyle
from tests import hostile_files, libraries
from tests.unit.analysis.waiting import PATIENCE_S, finish, finish_one
from tests.unit.analysis.worker_status import (
    assert_confined,
    most_open_files,
    opened,
    status,
    workers_of,
)
from tests.workload.processes import wait_until

REMEDY = "if it is a TLS library, report that"
MANY = 20


@pytest.fixture
def process() -> AnalysisProcess:
    return AnalysisProcess()


@pytest.fixture
def analyzer(
    tmp_path: Path, process: AnalysisProcess, monkeypatch: pytest.MonkeyPatch
) -> Iterator[FileAnalyzer]:
    monkeypatch.setattr(result_cache, "folder", lambda: tmp_path / "cache")
    with FileAnalyzer(process=process) as analyzer:
        yield analyzer


def started_worker(process: AnalysisProcess) -> int:
    """Wait until a worker looks into a file; return its process id."""
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        for pid in workers_of(process):
            if status(pid).get("Seccomp") == "2":
                return pid
        time.sleep(0.002)
    raise TimeoutError


@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["notes", "names", "debug_link"])
def test_a_small_file_on_disk_takes_no_long_time(
    kind: str, tmp_path: Path, analyzer: FileAnalyzer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each took ten seconds and more of CPU: what is a hole in the file is not read."""
    monkeypatch.setattr(planning_module, "_MOST_CPU_S", 1)
    path = hostile_files.KINDS[kind](tmp_path / "hostile")
    assert path.stat().st_blocks * 512 < 64 << 10
    finish(analyzer, str(libraries.library("3.0").path))  # what workers need is imported
    plans = finish(analyzer, str(path))
    assert plans == {str(path): Refusal("there is no TLS library in it that sslsniff knows")}


def test_a_file_that_takes_too_much_memory_is_refused(
    tmp_path: Path, analyzer: FileAnalyzer
) -> None:
    path = str(hostile_files.unwind_table(tmp_path / "hostile"))
    over = Refusal("planning it takes more than 512 MB of memory", is_tls=True, remedy=REMEDY)
    assert finish(analyzer, path) == {path: over}


@pytest.mark.tools
def test_what_the_capture_has_in_memory_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker is forked from it: with a limit for all of that, each died at once."""
    monkeypatch.setattr(result_cache, "folder", lambda: tmp_path / "cache")
    with mmap.mmap(-1, 1 << 30), FileAnalyzer() as analyzer:
        path = str(libraries.library("3.0").path)
        assert isinstance(finish(analyzer, path)[path], Attachment)


@pytest.mark.heavy
def test_files_that_take_too_long_are_refused_and_keep_nobody_waiting(
    tmp_path: Path,
    analyzer: FileAnalyzer,
    process: AnalysisProcess,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The good one comes last, and is there first; the second time nobody takes any time."""
    monkeypatch.setattr(planning_module, "_MOST_CPU_S", 2)
    analyzer._slow.cpu_s = 2
    first = hostile_files.symbol_tables(tmp_path / "hostile")
    hostile = [str(first.rename(tmp_path / "hostile-0"))]
    hostile += [str(hostile_files.symbol_tables(tmp_path / f"hostile-{each}")) for each in (1, 2)]
    good = str(libraries.library("3.0").path)
    finish(analyzer, good)
    began_s = time.monotonic()
    plans = finish(analyzer, *hostile, str(shutil.copy(good, tmp_path / "libssl.so.3")))
    *_, refused = plans.values()
    assert next(iter(plans)) == str(tmp_path / "libssl.so.3")
    assert refused == Refusal("planning it takes more than 2 s of CPU", is_tls=True, remedy=REMEDY)
    assert list(plans.values())[1:] == [refused] * len(hostile)
    assert time.monotonic() - began_s > 2 * len(hostile)
    wait_until(lambda: not workers_of(process))

    began_s, first_s = time.monotonic(), time.monotonic() - began_s
    assert finish(analyzer, *hostile) == dict.fromkeys(hostile, refused)
    assert time.monotonic() - began_s < first_s / 4


@pytest.mark.slow
def test_a_worker_has_no_rights_and_limits(
    tmp_path: Path, analyzer: FileAnalyzer, process: AnalysisProcess
) -> None:
    path = str(hostile_files.symbol_tables(tmp_path / "hostile"))
    analyzer.add(path, open_file(path))
    pid = started_worker(process)
    assert_confined(pid, process, 1, 512 << 20)
    assert most_open_files(pid) == 16
    wait_until(lambda: opened(pid) == {"hostile", "null", "socket"})


@pytest.mark.slow
def test_the_process_gives_up_its_rights_before_it_is_needed(process: AnalysisProcess) -> None:
    process.prepare()
    wait_until(lambda: status(process.pid)["NoNewPrivs"] == "1")
    wait_until(lambda: int(status(process.pid)["CapEff"], 16) == 0)
    found = status(process.pid)
    assert {int(found[each], 16) for each in ("CapInh", "CapPrm", "CapAmb")} == {0}
    assert opened(process.pid) == {"null", "socket"}
    process.close()
    assert not status(process.pid)


@pytest.mark.slow
def test_a_worker_that_dies_is_reported_and_others_go_on(
    tmp_path: Path, analyzer: FileAnalyzer, process: AnalysisProcess
) -> None:
    """Killed as the kernel kills where memory is short: it is tried once more, then refused."""
    path = str(hostile_files.symbol_tables(tmp_path / "hostile"))
    analyzer.add(path, open_file(path))
    killed: set[int] = set()
    for _ in range(2):
        deadline_s = time.monotonic() + PATIENCE_S
        while (pid := started_worker(process)) in killed:
            assert time.monotonic() < deadline_s
        os.kill(pid, signal.SIGKILL)
        killed.add(pid)
        analyzer.wait(PATIENCE_S)
        analyzer.collect()
    reason = "planning it failed (the process that did so ended)"
    assert finish_one(analyzer) == {path: Refusal(reason, is_tls=True, remedy=REMEDY)}
    assert not list((tmp_path / "cache").glob("*"))  # it need not end so the next time
    good = str(libraries.library("3.0").path)
    assert isinstance(finish(analyzer, good)[good], Attachment)


@pytest.mark.tools
def test_where_the_process_is_gone_files_are_refused(
    analyzer: FileAnalyzer, process: AnalysisProcess
) -> None:
    os.kill(process.pid, signal.SIGKILL)
    good = str(libraries.library("3.0").path)
    found = finish(analyzer, good)[good]
    assert isinstance(found, Refusal)
    assert found.reason == "planning it failed (the process that did so ended)"


@pytest.mark.heavy
def test_many_files_of_all_owners_are_planned(tmp_path: Path, analyzer: FileAnalyzer) -> None:
    """Those that only root can have written share a worker; where one ends it, others continue."""
    good = libraries.library("3.0").path
    wanted = {}
    for index in range(MANY):
        path = Path(shutil.copy(good, tmp_path / f"{index}.so"))
        path.chmod(0o666 if index % 2 else 0o644)
        if index == MANY // 2:
            hostile_files.unwind_table(path)
            os.chown(path, os.geteuid(), os.getegid())
        wanted[str(path)] = index != MANY // 2
    plans = finish(analyzer, *wanted)
    assert {path: isinstance(plan, Attachment) for path, plan in plans.items()} == wanted


def answer_of(path: str) -> dict[str, Any]:
    """Return what a worker answers for a library."""
    file = open_file(path)
    status = os.fstat(file)
    os.close(file)
    plan = result_cache.load(path, status, ReturnStyle.INSTRUCTIONS)
    assert plan is not None
    answer: dict[str, Any] = json.loads(json.dumps(result_cache.entry(plan)))
    return {"plan": answer, "wanted": None}


@pytest.fixture
def job(analyzer: FileAnalyzer) -> Iterator[Job]:
    """Return a job for a library that is known to the cache."""
    path = str(libraries.library("3.0").path)
    finish(analyzer, path)
    file = open_file(path)
    job = Job(path, file, os.fstat(file), ReturnStyle.INSTRUCTIONS)
    yield job
    job.close()


@pytest.mark.slow
def test_a_sensible_answer_is_believed(job: Job) -> None:
    checked = planning_module._checked(job, answer_of(job.path))
    assert isinstance(checked.plan, Attachment)
    assert checked.is_lasting


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        {"plan": None},
        {"plan": []},
        {"plan": {}},
        {"plan": {"refusal": 3, "is_tls": True, "remedy": ""}},
        {"plan": {"refusal": "x" * 5000, "is_tls": True, "remedy": ""}},
        {"wanted": 3},
        {"wanted": ["id"]},
        {"wanted": ["id", 3]},
        {"over": ["x"] * 3, "plan": None},
    ],
)
def test_an_answer_that_makes_no_sense_is_not_believed(job: Job, change: dict[str, Any]) -> None:
    checked = planning_module._checked(job, answer_of(job.path) | change)
    assert isinstance(checked.plan, Refusal)
    assert len(checked.plan.reason) < 5000


@pytest.mark.slow
@pytest.mark.parametrize("offset", ["header", "data", "beyond", -1])
def test_probes_outside_of_code_are_not_believed(job: Job, offset: str | int) -> None:
    """A file that took over who looked into it could have them in the middle of anything."""
    places = {"header": 0, "data": job.status.st_size - 8, "beyond": job.status.st_size}
    answer = answer_of(job.path)
    answer["plan"]["parts"][0]["probes"][0][1] = places.get(str(offset), offset)
    checked = planning_module._checked(job, answer)
    assert checked.plan == Refusal(
        "planning it failed (what was found out makes no sense)", is_tls=True, remedy=REMEDY
    )
    assert not checked.is_lasting


@pytest.mark.tools
def test_a_debug_file_that_was_not_offered_is_not_believed(job: Job) -> None:
    answer = answer_of(job.path)
    answer["plan"]["debug_file"] = "/etc/shadow"
    assert isinstance(planning_module._checked(job, answer).plan, Refusal)


@pytest.mark.parametrize(
    "wanted",
    [
        ("../../../etc/shadow", None),
        ("ab", None),
        ("AB/../cd", None),
        (None, "../shadow"),
        (None, ""),
        (None, "a\0b"),
        (None, ".."),
    ],
)
def test_no_other_file_is_opened_as_a_debug_file(
    wanted: tuple[str | None, str | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []

    def note(path: str) -> int:
        tried.append(path)
        raise FileNotFoundError

    monkeypatch.setattr(debug_files, "open_regular", note)
    asked = WantedDebugFile(*wanted)
    with contextlib.ExitStack() as closing:
        assert debug_files.open_offers(str(tmp_path / "x"), 0, asked, closing) == []
    assert all(Path(each).name == ".." for each in tried)


@pytest.mark.heavy
def test_a_worker_is_kept_for_a_while_where_more_may_come(
    tmp_path: Path, analyzer: FileAnalyzer, process: AnalysisProcess
) -> None:
    """A program that begins maps one file after the other; one that dies meanwhile is replaced."""
    good = libraries.library("3.0").path
    paths = [str(shutil.copy(good, tmp_path / f"{index}.so")) for index in range(4)]
    finish(analyzer, paths[0])
    [worker] = workers_of(process)
    finish(analyzer, paths[1])
    assert workers_of(process) == [worker]
    os.kill(worker, signal.SIGKILL)
    analyzer.wait(PATIENCE_S)
    analyzer.collect()
    assert isinstance(finish(analyzer, paths[2])[paths[2]], Attachment)
    wait_until(lambda: worker not in workers_of(process))

    def has_none() -> bool:
        analyzer.collect()
        return not workers_of(process)

    wait_until(has_none)
    assert isinstance(finish(analyzer, paths[3])[paths[3]], Attachment)
