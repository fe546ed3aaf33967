"""Programs of a host that talk to an API and to a collector of metrics. One gives a secret away."""

import os
import secrets
import sys
from pathlib import Path

from docs.stories.system import System
from tests.workload.ports import free_port
from tests.workload.servers import Certificate

COMPLAINT = """
"A live key of ours (sk_live_ and 24 hex digits) was seen at the supplier of our metrics,
who should not have it." Which program sends it, where, in which field?
The programs are children of the shell below.
"""
_SHELL = """
cd {folder}
while sleep 1; do
    curl -sS --cacert $STORY_CERTIFICATE -o /dev/null -H "Authorization: Bearer $DEPLOY" \\
        {api}/deploys
done &
while sleep 2; do
    wget -q --ca-certificate=$STORY_CERTIFICATE -O /dev/null "{metrics}/health?host=web-1"
done &
{python} -m docs.stories.leak_programs backup {api} {metrics} &
{python} -m docs.stories.leak_programs reports {api} {metrics} &
wait
"""


def start(system: System, certificate: Certificate) -> None:
    """Start two servers, and a shell whose children talk to them."""
    api, metrics = free_port(), free_port()
    system.run_module("api", "leak_programs", "server", api, port=api)
    system.run_module("metrics", "leak_programs", "server", metrics, port=metrics)
    script = _SHELL.format(
        folder=Path.cwd(),
        python=sys.executable,
        api=f"https://localhost:{api}",
        metrics=f"https://localhost:{metrics}",
    )
    keys = {name: f"sk_live_{secrets.token_hex(12)}" for name in ("DEPLOY", "BACKUP")}
    system.run("shell", "sh", "-c", script, environment={**os.environ, **keys})
    for server in ("api", "metrics"):
        del system.shown[server]  # they are the supplier's
