"""Handshakes that fail, and what must be shown of them: for tests of several TLS libraries."""

import os
import shlex
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager

from sslsniff.kernel import procfs
from tests.live.checks import Sniff
from tests.live.sniffer import Captured, Sniffer
from tests.workload.certificates import Authority
from tests.workload.processes import PROGRAMS, next_line, started
from tests.workload.servers import Certificate

PEER = PROGRAMS / "python/failing_handshakes.py"
COUNT = 20
CLIENT_KINDS = {
    "untrusted": "untrusted",
    "expired": "expired",
    "wrong_name": "wrong_name",
    "no_shared_version": "no_shared_version",
    "no_shared_cipher": "refused",  # the server's alert says no more
    "client_certificate": "client_certificate",
    "late_certificate": "client_certificate",
    "unknown_name": "unknown_name",
    "reset": "reset",
    "timeout": "timeout",
    "plaintext": "plaintext",
}
"""How handshakes fail -> the kind that a client's side shows."""
KINDS_OF_BORINGSSL = CLIENT_KINDS | {"wrong_name": "bad_certificate"}
"""The same of BoringSSL, whose alert says no more."""

SERVER_KINDS = {
    "untrusted": "untrusted",
    "expired": "expired",
    "wrong_name": "bad_certificate",  # the client's alert says no more
    "no_shared_version": "no_shared_version",
    "no_shared_cipher": "no_shared_cipher",
    "client_certificate": "client_certificate",
    "untrusted_client": "untrusted",
    "unknown_name": "unknown_name",
    "reset_by_client": "reset",
    "http_request": "plaintext",
}
"""The same for a server's side."""

Running = tuple[int, int]
"""A server's process, and its port."""


def peer(side: str, kind: str, port: int, made: Authority, count: int = COUNT) -> list[str]:
    folder = made.certificate.parent
    return [sys.executable, *map(str, (PEER, side, kind, port, count, folder))]


@contextmanager
def servers(
    kinds: Iterable[str], made: Authority, count: int = COUNT
) -> Iterator[dict[str, tuple[int, int]]]:
    """Run a server for each kind; yield the number of its process and its port."""
    with ExitStack() as running:
        found = {}
        for kind in kinds:
            process = running.enter_context(started(*peer("server", kind, 0, made, count)))
            assert process.stdout is not None
            found[kind] = process.pid, int(process.stdout.readline())
        yield found


def repeated(command: str, count: int = COUNT) -> str:
    """Return what runs a command of a shell so many times, one after the other, without output."""
    return f"for i in $(seq {count}); do {command}; done > /dev/null 2>&1"


def impatient(command: str, count: int = COUNT) -> str:
    """Return what runs a command of a shell so many times at once, and ends it after a while."""
    return f"for i in $(seq {count}); do timeout 20 {command} & done > /dev/null 2>&1; wait"


def together(*commands: str, last: str = "true") -> list[str]:
    """Return what runs commands of a shell at once, then ``last``, and succeeds."""
    return ["sh", "-c", "".join(f"({each}) & " for each in commands) + f"wait; {last}; true"]


def end_servers(sniffer: Sniffer, name: str) -> None:
    """End the processes with this name that sslsniff watches, as its command."""
    for pid in procfs.descendants([sniffer.process.pid]):
        if procfs.thread_name(pid) == name:
            os.kill(pid, signal.SIGTERM)


def assert_shown(
    captured: Captured,
    ports: Mapping[str, int],
    kinds: Mapping[str, str],
    count: int = COUNT,
    exchanges: int = 0,
) -> None:
    """Each handshake is shown once, with the kind of its server's port; so says the summary.

    ``exchanges``: how many requests clients may have sent before they knew.
    """
    lines = captured.of("handshake")
    found = Counter((each["server"]["port"], each["failure"]) for each in lines)
    assert found == {(port, kinds[kind]): count for kind, port in ports.items()}
    summary = captured.summary
    assert summary["exchanges"] <= exchanges
    assert summary["failed_handshakes"] == len(ports) * count
    counted = Counter[str]()
    for each in summary["handshake_failures"]:
        counted[each["failure"]] += each["count"]
    assert counted == Counter(each["failure"] for each in lines)


@contextmanager
def announced_server(command: list[str], **options: str) -> Iterator[Running]:
    """Run a server that prints its port, with more variables in its environment."""
    with started(*command, env=os.environ | options, stderr=subprocess.DEVNULL) as process:
        yield process.pid, int(next_line(process))


def assert_servers_show(
    kinds: Mapping[str, str],
    made: Authority,
    sniff: Sniff,
    server: Callable[[str, Certificate], AbstractContextManager[Running]],
) -> None:
    """Servers whose clients fail, one of each of ``kinds``, show each failure once.

    ``server`` runs a server for a kind, with the certificate that it has; yields process and port.
    """
    ports: dict[str, int] = {}
    with ExitStack() as running:
        pids: list[str] = []
        for kind in kinds:
            used = {"expired": made.expired, "wrong_name": made.wrong_name}.get(kind, made.good)
            pid, ports[kind] = running.enter_context(server(kind, used))
            pids += ["--pid", str(pid)]
        clients = [shlex.join(peer("client", kind, port, made)) for kind, port in ports.items()]
        with sniff(*pids) as sniffer:
            subprocess.run(together(*clients), check=True)
            captured = sniffer.stop()
    assert_shown(captured, ports, kinds)
    assert {each["role"] for each in captured.of("handshake")} == {"server"}
