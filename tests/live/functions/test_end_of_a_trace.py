"""A trace that has too little time at its end counts the hits that it does not show."""

import json
import re
import signal

import pytest

from sslsniff.kernel import procfs
from tests.live.functions.tracing import tracing
from tests.workload.load import Load
from tests.workload.processes import PATIENCE_S, held
from tests.workload.servers import Certificate

pytestmark = pytest.mark.heavy

CALLS = 60_000  # of two hits each: the ring has room for all
LEAST = 10


def test_hits_that_there_is_no_time_for(load: Load, certificate: Certificate) -> None:
    """Each hit is in a call that is shown, or counted as not shown."""
    with load.receiver(certificate.certificate, certificate.key) as receiver:
        sender = held(load.sender(receiver.port, 1, (CALLS, 50)))
        library = next(path for name, path in procfs.libraries() if name == "libssl.so.3")
        limits = ("--end-within", "1", "--rate", str(10 * CALLS))
        with tracing(sender.pid, "^SSL_write$", "--lib", library, *limits) as tracer:
            tracer.send_signal(signal.SIGSTOP)
            sender.communicate("go\n", 4 * PATIENCE_S)
            tracer.send_signal(signal.SIGTERM)
            tracer.send_signal(signal.SIGCONT)
            output, said = tracer.communicate(timeout=PATIENCE_S)
    *calls, summary = map(json.loads, output.splitlines())
    assert summary["lost_calls"] == 0
    shown = sum(2 if each.get("returned", True) else 1 for each in calls)
    [not_shown] = map(int, re.findall(r"(\d+) hits are not shown", said))
    assert shown > LEAST
    assert not_shown > LEAST
    assert shown + not_shown == 2 * CALLS
    assert tracer.returncode == 1
