"""What a thread of the screen takes of the CPU, as the kernel has it."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from sslsniff.screen.courtesy import NICE, Courtesy


def policies() -> list[int]:
    """Return the policy of the calling thread: on time, late, soon after, and later."""
    courtesy, found = Courtesy(), [os.sched_getscheduler(0)]
    for now_s, is_late in ((100.0, True), (104.0, False), (106.0, False)):
        courtesy.update(now_s=now_s, is_late=is_late)
        found.append(os.sched_getscheduler(0))
    return [*found, os.getpriority(os.PRIO_PROCESS, 0)]


def test_a_thread_that_is_late_gets_more() -> None:
    own = os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0)
    with ThreadPoolExecutor(1) as threads:
        found = threads.submit(policies).result()
    assert found == [os.SCHED_IDLE, os.SCHED_OTHER, os.SCHED_OTHER, os.SCHED_IDLE, own[1] + NICE]
    assert (os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0)) == own


def processors(beside: int) -> list[set[int]]:
    """Return where the calling thread may run: on time, late, and after the process has ended."""
    courtesy, found = Courtesy(beside), [os.sched_getaffinity(0)]
    courtesy.update(now_s=100.0, is_late=True)
    found.append(os.sched_getaffinity(0))
    os.kill(beside, signal.SIGKILL)
    os.waitpid(beside, 0)
    courtesy.update(now_s=106.0, is_late=False)
    return [*found, os.sched_getaffinity(0)]


@pytest.mark.parametrize("place", sorted(os.sched_getaffinity(0)))
def test_a_thread_runs_beside_the_capture(place: int) -> None:
    own = os.sched_getaffinity(0)
    # Its name has what stands before the fields in /proc/PID/stat.
    program = "import time; open('/proc/self/comm', 'w').write(') 7 (x'); print(); time.sleep(60)"
    command = ["taskset", "-c", str(place), sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with ThreadPoolExecutor(1) as threads:
            found = threads.submit(processors, process.pid).result()
    assert found == [{place}, own, own]
    assert os.sched_getaffinity(0) == own
