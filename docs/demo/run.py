"""``make demo``: a TLS server and clients of its own on loopback, and sslsniff watching them."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.workload.nobody import as_nobody
from tests.workload.servers import Server, python_server, self_signed

SSLSNIFF = Path(sys.executable).with_name("sslsniff")
CAPTURE = Path("demo.pcapng")
REPORT = Path("demo.html")

STORY = """
The demo starts a TLS server on loopback. sslsniff watches the process of the server, and no other.
curl sends it six requests: a GET and a form over HTTP/1.1, then four GETs at once over HTTP/2.
"""
WITHOUT_RIGHTS = """
A command that sslsniff starts can be watched without rights, as the user nobody does here:
"""
_SSLSNIFF = ".venv/bin/sslsniff"
_AS_ROOT = f"sudo {_SSLSNIFF}" if "SUDO_UID" in os.environ else _SSLSNIFF
_COMMANDS = {
    f"{_SSLSNIFF} read {CAPTURE} -vv": "the same exchanges, with headers and bodies",
    f"{_SSLSNIFF} read {CAPTURE} --frames": "the frames of HTTP/2",
    f"{_AS_ROOT} list": "which processes use TLS, and with which library",
    f"{_SSLSNIFF} -- curl -sSo /dev/null https://pypi.org/": "what a command sends and receives",
}
_NEXT = "\n".join(f"  {command:60}  # {what}" for command, what in _COMMANDS.items())
END = f"""
What you saw was read from the server's process. The server was not prepared for it. Try next:

{_NEXT}

{CAPTURE} also opens in Wireshark, without a key.
The report is {REPORT.resolve()}: open it in a browser."""


def main() -> None:
    """Run the demo."""
    print(STORY)
    with tempfile.TemporaryDirectory() as folder:
        certificate = self_signed(Path(folder))
        with python_server(certificate) as server:
            watch(server, certificate.certificate)
            report()
            watch_without_rights(server)
    print(END)


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
    print("$", _SSLSNIFF, *command[1:], flush=True)
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


def report() -> None:
    """Write a page about the capture."""
    command = ["report", str(CAPTURE), "-o", str(REPORT), "--force"]
    print("$", _SSLSNIFF, *command, flush=True)
    subprocess.run([SSLSNIFF, *command], check=True, capture_output=True)


def watch_without_rights(server: Server) -> None:
    """Run a command under sslsniff as the user nobody."""
    command = ["curl", "-sSk", "-o", "/dev/null", f"{server.url}/hello"]
    print(WITHOUT_RIGHTS)
    print("$", _SSLSNIFF, "--", *command, flush=True)
    done = as_nobody("--", *command)
    print(done.stdout + done.stderr, end="")
    done.check_returncode()


if __name__ == "__main__":
    main()
