"""An agent: calls of a language model by an SDK, and tools of an MCP server that it starts."""

import sys

from docs.stories.system import System
from tests.workload.ports import free_port
from tests.workload.servers import Certificate

COMPLAINT = """
"Our agent takes far longer for one question than it should, and costs more than we thought."
Where do the seconds go, and where the money? The prices are in docs/stories/prices.toml.
The agent is started by
"""


def start(system: System, certificate: Certificate) -> None:
    """Start a server that answers as a model's API does."""
    port = free_port()
    system.run_module("model", "agent_model", port, port=port)
    setting = f"STORY_CERTIFICATE={certificate.certificate}"
    system.command = f"env {setting} {sys.executable} -m docs.stories.agent_client {port}"
