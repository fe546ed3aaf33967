"""Watch a process, and print its failed requests as they end: ``alert.py PID``; Ctrl-C ends.

sslsniff writes a line of JSON for each exchange (docs/json.md). It needs root.
"""

import contextlib
import json
import subprocess
import sys


def main(pid: str) -> None:
    """Print a line for each exchange that failed, until the process or the capture ends."""
    command = [sys.executable, "-m", "sslsniff", "--pid", pid, "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as capture:
        assert capture.stdout is not None
        for line in capture.stdout:
            found = json.loads(line)
            if found["type"] != "exchange":
                continue
            status = (found["response"] or {}).get("status")
            if found["error"] or (status is not None and status >= 400):
                url = (found["request"] or {}).get("url")
                print(f"failed: {url}: {found['error'] or status}", flush=True)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main(sys.argv[1])
