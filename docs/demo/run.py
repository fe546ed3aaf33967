"""``make demo``: a TLS server and clients of its own on loopback, and sslsniff watching them."""

import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
SSLSNIFF = Path(sys.executable).with_name("sslsniff")
SERVER = ROOT / "tests" / "programs" / "server.py"
CAPTURE = Path("demo.pcapng")

NEXT = f"""
What you saw was read from the server process; it knows nothing of it. Try next:

  wireshark {CAPTURE}                       # HTTP and HTTP/2, no key needed
  .venv/bin/sslsniff read {CAPTURE} -vv     # the same again, with headers and bodies
  .venv/bin/sslsniff read {CAPTURE} --frames
  sudo .venv/bin/sslsniff -- curl https://localhost:8443/
  sudo .venv/bin/sslsniff list              # who uses TLS here, and with which library
"""


def main() -> None:
    """Run the demo."""
    with tempfile.TemporaryDirectory() as folder:
        certificate, key = Path(folder, "certificate.pem"), Path(folder, "key.pem")
        make_certificate(certificate, key)
        server = subprocess.Popen(
            [sys.executable, SERVER, certificate, key], stdout=subprocess.PIPE, text=True
        )
        try:
            assert server.stdout is not None
            port = int(server.stdout.readline())
            watch(server.pid, f"https://localhost:{port}", certificate)
        finally:
            server.kill()
            server.communicate()
    print(NEXT)


def make_certificate(certificate: Path, key: Path) -> None:
    """Write a self-signed certificate for localhost."""
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)


def watch(pid: int, url: str, certificate: Path) -> None:
    """Run sslsniff on the server ``pid`` while curl talks to it."""
    command = [SSLSNIFF, "--pid", str(pid), "--pcap", CAPTURE, "--print", "--force"]
    print("$", *map(str, (".venv/bin/sslsniff", *command[1:])), flush=True)
    sniffer = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert sniffer.stderr is not None
        print(sniffer.stderr.readline(), end="", flush=True)
        curl = ["curl", "-sS", "--cacert", str(certificate), "-o", "/dev/null"]
        one, many = f"{url}/hello", f"{url}/bytes/[1000-4000:1000]"
        subprocess.run([*curl, "--http1.1", one], check=True)
        subprocess.run([*curl, "--http1.1", "-d", "name=value", f"{url}/form"], check=True)
        subprocess.run([*curl, "--http2", "--parallel", many], check=True)
        time.sleep(0.3)
    finally:
        sniffer.send_signal(signal.SIGINT)
        sniffer.wait()


if __name__ == "__main__":
    main()
