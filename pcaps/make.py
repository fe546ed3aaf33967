"""Make the captures of this folder anew: ``sudo .venv/bin/python -m pcaps.make``.

Each is what sslsniff saw of a real client of OpenSSL that talks to tests/workload/python/server.py.
The JSON lines beside it are what ``sslsniff read`` made of it, looked through before they were
committed.
"""

import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.workload.processes import PROGRAMS
from tests.workload.servers import python_server, self_signed

HERE = Path(__file__).parent
SSLSNIFF = Path(sys.executable).with_name("sslsniff")


def of_command(name: str, command: list[str]) -> None:
    """Capture a command from its start."""
    run = [str(SSLSNIFF), "--pcap", str(HERE / name), "--force", "--", *command]
    subprocess.run(run, check=True, stdout=subprocess.DEVNULL)


def keep_alive(port: int) -> None:
    """Three requests over one HTTP/1.1 connection, one with a body."""
    url = f"https://localhost:{port}"
    post = ["--next", "-sk", "--http1.1", "-d", "name=value&more=1", f"{url}/form"]
    of_command(
        "http1-keep-alive.pcapng",
        ["curl", "-sk", "--http1.1", f"{url}/hello", f"{url}/bytes/3000", *post],
    )


def multiplexed(port: int) -> None:
    """Eight requests over one HTTP/2 connection at once."""
    urls = f"https://localhost:{port}/bytes/[1000-8000:1000]"
    of_command(
        "http2-multiplexed.pcapng",
        ["curl", "-sk", "--http2", "--parallel", "--parallel-max", "8", "-o", "/dev/null", urls],
    )


def joined(port: int) -> None:
    """Join an HTTP/2 connection whose first requests passed before sslsniff started."""
    client = subprocess.Popen(
        [sys.executable, PROGRAMS / "python/http2_client.py", "localhost", str(port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert client.stdin is not None
    assert client.stdout is not None

    def ask(paths: str) -> None:
        print(paths, file=client.stdin, flush=True)
        client.stdout.readline()  # type: ignore[union-attr]

    client.stdout.readline()
    ask("/before/1 /before/2")
    capture = HERE / "http2-joined-in-the-middle.pcapng"
    sniffer = subprocess.Popen(
        [SSLSNIFF, "--pid", str(client.pid), "--force", "--pcap", capture],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert sniffer.stderr is not None
    sniffer.stderr.readline()
    ask("/before/2 /after/1")
    ask("/bytes/2000 /after/2")
    client.stdin.close()
    client.wait()
    sniffer.send_signal(signal.SIGINT)
    sniffer.communicate()


def main() -> None:
    """Make all, and the lines that they decode to."""
    with (
        tempfile.TemporaryDirectory() as folder,
        python_server(self_signed(Path(folder))) as server,
    ):
        for make in (keep_alive, multiplexed, joined):
            make(server.port)
    for capture in sorted(HERE.glob("*.pcapng")):
        lines = subprocess.run(
            [SSLSNIFF, "read", str(capture), "--json"], check=True, capture_output=True
        ).stdout
        capture.with_suffix(".expected.jsonl").write_bytes(lines)


if __name__ == "__main__":
    main()
