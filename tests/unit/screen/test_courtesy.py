"""What a thread of the screen takes of the CPU, as the kernel has it."""

import os
from concurrent.futures import ThreadPoolExecutor

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
