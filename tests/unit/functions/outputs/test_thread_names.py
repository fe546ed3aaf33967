import os
import subprocess

from sslsniff.functions.outputs.thread_names import ThreadNames
from sslsniff.kernel import procfs

NO_THREAD = 4_194_305  # above the most that a kernel gives out (PID_MAX_LIMIT)


def test_a_thread_that_ended_has_the_name_of_its_process() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        while procfs.thread_name(process.pid) != "sleep":  # its program is about to be executed
            pass
        label = ThreadNames().label(process.pid, NO_THREAD, None, is_go=False)
        process.kill()
    assert label == f"sleep[{NO_THREAD}]"


def test_a_process_that_ended_has_the_name_of_its_end() -> None:
    names = ThreadNames({NO_THREAD: "child"}.get)
    assert names.name(NO_THREAD) == "child"
    assert names.label(NO_THREAD, NO_THREAD + 1, None, is_go=False) == f"child[{NO_THREAD + 1}]"


def test_labels() -> None:
    pid = os.getpid()
    names = ThreadNames()
    name = names.name(pid)
    assert names.label(pid, pid, None, is_go=False) == f"{name}[{pid}]"
    assert names.label(pid, pid, 7, is_go=False) == f"{name}[{pid}] task 7"
    assert names.label(pid, pid, 7, is_go=True) == f"{name}[{pid}] goroutine 7"
    assert names.label(NO_THREAD, NO_THREAD, None, is_go=False) == f"?[{NO_THREAD}]"
