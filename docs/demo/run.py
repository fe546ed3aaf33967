"""``make demo``: a TLS server and clients of its own on loopback, and sslsniff watching them."""

import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.workload.servers import Server, python_server, self_signed

SSLSNIFF = Path(sys.executable).with_name("sslsniff")
CAPTURE = Path("demo.pcapng")

NEXT = f"""
What you saw was read from the server process; it knows nothing of it. Try next:

  wireshark {CAPTURE}                       # HTTP and HTTP/2, no key needed
  .venv/bin/sslsniff read {CAPTURE} -vv     # the same again, with headers and bodies
  .venv/bin/sslsniff read {CAPTURE} --frames
  sudo .venv/bin/sslsniff -- curl https://example.org/
  sudo .venv/bin/sslsniff list              # who uses TLS here, and with which library
"""


def main() -> None:
    """Run the demo."""
    with tempfile.TemporaryDirectory() as folder:
        certificate = self_signed(Path(folder))
        with python_server(certificate) as server:
            watch(server, certificate.certificate)
    print(NEXT)


def watch(server: Server, certificate: Path) -> None:
    """Run sslsniff on the ``server`` while curl talks to it."""
    command = [
        str(SSLSNIFF),
        "--pid",
        str(server.pid),
        "--pcap",
        str(CAPTURE),
        "--print",
        "--force",
    ]
    print("$", ".venv/bin/sslsniff", *command[1:], flush=True)
    sniffer = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert sniffer.stderr is not None
        print(sniffer.stderr.readline(), end="", flush=True)
        curl = ["curl", "-sS", "--cacert", str(certificate), "-o", "/dev/null"]
        one, many = f"{server.url}/hello", f"{server.url}/bytes/[1000-4000:1000]"
        subprocess.run([*curl, "--http1.1", one], check=True)
        subprocess.run([*curl, "--http1.1", "-d", "name=value", f"{server.url}/form"], check=True)
        subprocess.run([*curl, "--http2", "--parallel", "--no-progress-meter", many], check=True)
        time.sleep(0.3)
    finally:
        sniffer.send_signal(signal.SIGINT)
        sniffer.wait()


if __name__ == "__main__":
    main()
