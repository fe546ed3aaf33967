"""What a thread of the screen takes of the CPU, as the kernel has it."""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from sslsniff.screen.courtesy import NICE, Courtesy

pytestmark = pytest.mark.tools


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


def processors(beside: subprocess.Popen[bytes]) -> list[set[int]]:
    """Return where the calling thread may run.

    When it is on time, when it is late, while the other process is busy, and after that has ended.
    """
    assert beside.stdin is not None
    courtesy, found = Courtesy(beside.pid), [os.sched_getaffinity(0)]
    courtesy.update(now_s=time.monotonic(), is_late=True)
    found.append(os.sched_getaffinity(0))
    late_over_s = time.monotonic() + 6
    courtesy.update(now_s=late_over_s, is_late=False)
    found.append(os.sched_getaffinity(0))
    beside.stdin.close()
    time.sleep(2)  # other tests may take much of the processor
    courtesy.update(now_s=late_over_s + 0.5, is_late=False)
    found.append(os.sched_getaffinity(0))
    beside.kill()
    beside.wait()
    courtesy.update(now_s=late_over_s + 2, is_late=False)
    return [*found, os.sched_getaffinity(0)]


@pytest.mark.heavy
@pytest.mark.parametrize("place", sorted(os.sched_getaffinity(0)))
def test_a_thread_runs_beside_the_capture(place: int) -> None:
    own = os.sched_getaffinity(0)
    # Its name has what stands before the fields in /proc/PID/stat.
    program = (
        "import sys; open('/proc/self/comm', 'w').write(') 7 (x'); print(flush=True)\n"
        "sys.stdin.read()\n"
        "while True: pass"
    )
    command = ["taskset", "-c", str(place), sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            with ThreadPoolExecutor(1) as threads:
                found = threads.submit(processors, process).result()
        finally:
            process.kill()
    assert found == [{place}, own, {place}, own, own]
    assert os.sched_getaffinity(0) == own
