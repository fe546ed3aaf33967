"""A rustls that keeps its data otherwise than is known is dropped, and the user told."""

import pytest

from sslsniff.analysis import result_cache
from sslsniff.capture.capture import LiveCapture
from sslsniff.capture.early_files import EarlyFiles
from sslsniff.capture.scope import Scope
from sslsniff.core import events
from sslsniff.kernel.loaders.libbpf import LibbpfLoader
from sslsniff.libraries.rustls.plaintext_methods import Version
from sslsniff.libraries.rustls.plan import LAYOUTS
from sslsniff.matching.probe_set import Attachment, ProbedLibrary
from tests.planned import plan_file
from tests.workload.processes import run
from tests.workload.rust.fixtures import fixtures
from tests.workload.servers import Certificate, Server

pytestmark = pytest.mark.heavy

RING_BYTES = 64 << 20  # room for all that passes: it is read at the end
[PROGRAM] = [
    each.path
    for each in fixtures("blocking")
    if (each.tls, each.profile) == ("rustls-0-23-ring", "release")
]
CONNECTIONS, REQUESTS = 2, 10


def as_of(part: ProbedLibrary, version: Version) -> ProbedLibrary:
    return part._replace(layout=LAYOUTS[version], read_as=".".join(map(str, version)))


@pytest.mark.parametrize("version", [(0, 23), (0, 21), (0, 24)])
def test_what_does_not_hold_is_dropped(
    version: Version, server: Server, certificate: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program is of 0.23; read as any other version nothing of it makes sense."""
    plan = plan_file(str(PROGRAM))
    assert isinstance(plan, Attachment)
    parts = tuple(as_of(part, version) for part in plan.parts)
    monkeypatch.setattr(result_cache, "load", lambda *_, **__: plan._replace(parts=parts))
    notes: list[str] = []
    capture = LiveCapture(
        EarlyFiles(Scope(libraries=(str(PROGRAM),))),
        lambda: LibbpfLoader(RING_BYTES),
        ring_bytes=RING_BYTES,
        call_limit_bytes=1 << 20,
        note=notes.append,
    )
    with capture:
        [note] = notes
        assert note.startswith(f"{PROGRAM}: rustls 0.23 (read as {parts[0].read_as})")
        notes.clear()
        counts = [str(REQUESTS)] * CONNECTIONS
        run(PROGRAM, str(server.port), str(certificate.certificate), *counts)
        told = list(capture.finish())
    connections = sum(isinstance(each, events.Opened) for each in told)
    if version == (0, 23):
        assert (connections, notes) == (CONNECTIONS, [])
    else:
        assert connections == 0
        [note] = notes
        assert note.endswith("does not match any known layout: its traffic is not shown")
