"""Runs the system of one story."""

import importlib
import os
import signal
import sys
import tempfile
from pathlib import Path

from docs.stories.system import System
from tests.workload.servers import self_signed

STORIES = ("slow", "leak", "stall", "agent", "rare")


def main() -> None:
    """Start the system that the first argument names; end it at Ctrl-C."""
    if sys.argv[1:2] not in [[name] for name in STORIES]:
        sys.exit(f"python -m docs.stories NAME, which is one of: {', '.join(STORIES)}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    story = importlib.import_module(f"docs.stories.{sys.argv[1]}")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # a database does not run as root
        certificate = self_signed(Path(folder))
        os.environ["STORY_CERTIFICATE"] = str(certificate.certificate)
        os.environ["STORY_KEY"] = str(certificate.key)
        with System() as system:
            story.start(system, certificate)
            print(story.COMPLAINT.strip(), "\n", flush=True)
            if system.command:
                print(f"    {system.command}\n", flush=True)
            for name, pid in system.shown.items():
                print(f"{name:12} --pid {pid}", flush=True)
            system.wait()


if __name__ == "__main__":
    main()
