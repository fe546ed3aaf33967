"""Records the packets of a port by dumpcap, and says what tshark decrypts of them by a key log."""

import contextlib
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.workload.processes import PATIENCE_S, run

FINISHED = "20"
"""Of a handshake, encrypted (RFC 8446, section 4)."""
_SETTLED_S = 0.3
_FIELDS = ("tls.record.version", "tls.record.content_type", "tls.handshake.type")
_STATUSES = ("http.response.code", "http2.headers.status")


class Decrypted(NamedTuple):
    """What tshark sees in a record of packets.

    ``records``: how many TLS records there are. ``readable``: those of them whose kind is seen; in
    TLS 1.3 that means that they are decrypted. ``finished``: how many Finished messages are seen.
    ``answers``: how many HTTP responses are.
    """

    records: int
    readable: int
    finished: int
    answers: int


@contextlib.contextmanager
def recorded(path: Path, port: int, protocol: str = "tcp") -> Iterator[None]:
    """Record the packets of a port on the loopback interface, while the block runs."""
    command: list[str | Path] = ["dumpcap", "-q", "-B", "64", "-i", "lo", "-w", path]
    command += ["-f", f"{protocol} port {port}"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        while not process.stderr.readline().startswith("File:"):
            assert process.poll() is None
        time.sleep(_SETTLED_S)
        try:
            yield
            time.sleep(_SETTLED_S)
        finally:
            process.terminate()
            process.communicate(timeout=PATIENCE_S)


def quic_packets(packets: Path, port: int, key_log: Path | None = None) -> list[str]:
    """Return what tshark says of each packet of QUIC; those that it decrypted have a ``PKN``."""
    options: list[str | Path] = ["-o", f"tls.keylog_file:{key_log}"] if key_log is not None else []
    command: list[str | Path] = ["tshark", "-n", "-r", packets, "-d", f"udp.port=={port},quic"]
    return run(*command, *options, "-T", "fields", "-e", "_ws.col.Info").splitlines()


def decrypted(packets: Path, port: int, key_log: Path | None = None) -> Decrypted:
    """Return what tshark sees with the secrets in a key log, or with those beside the packets."""
    options: list[str | Path] = ["-o", f"tls.keylog_file:{key_log}"] if key_log is not None else []
    fields = [part for name in (*_FIELDS, *_STATUSES) for part in ("-e", name)]
    # Two processors may pass packets on in another order than TCP's; tshark gives up there.
    options += ["-o", "tcp.reassemble_out_of_order:TRUE"]
    command: list[str | Path] = ["tshark", "-n", "-2", "-r", packets, "-Y", "tls", "-T", "fields"]
    shown = run(*command, "-d", f"tcp.port=={port},tls", *options, *fields)
    rows = [line.split("\t") for line in shown.splitlines()]
    versions, kinds, messages, *statuses = [
        ",".join(filter(None, each)).split(",") for each in zip(*rows, strict=True)
    ]
    return Decrypted(
        records=len(versions),
        readable=len(kinds),
        finished=messages.count(FINISHED),
        answers=sum(each.isdigit() for part in statuses for each in part),
    )
