"""A client downloads four files at once over one HTTP/2 connection. Some stand still."""

from docs.stories.system import System
from tests.workload.ports import free_port
from tests.workload.servers import Certificate

COMPLAINT = """
"The mirror downloads four files at once, each of some 100 kB, from a server next door.
It should take an instant, and takes seconds, again and again. The network is idle."
Who waits for whom?
"""


def start(system: System, certificate: Certificate) -> None:
    """Start the server, and the mirror that downloads from it."""
    port = free_port()
    system.run_module("server", "stall_server", port, port=port)
    system.run_module("mirror", "stall_mirror", port)
