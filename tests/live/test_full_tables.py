"""The kernel's table of connections is full: it gives an entry to another one at any moment."""

import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from tests.live import kernel_objects
from tests.live.checks import Sniff
from tests.live.sniffer import Captured
from tests.workload.processes import PATIENCE_S, PROGRAMS, next_line, run, say, started
from tests.workload.servers import Certificate

pytestmark = pytest.mark.heavy

KEY_BYTES = 16  # struct connection_key; each entry begins with it
WRITER = """
import ssl, sys
near, far = ssl.MemoryBIO(), ssl.MemoryBIO()
client = ssl._create_unverified_context().wrap_bio(near, far)
accepting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
accepting.load_cert_chain(sys.argv[1], sys.argv[2])
server = accepting.wrap_bio(far, near, server_side=True)
for each in (client, server) * 2:
    try:
        each.do_handshake()
    except ssl.SSLWantReadError:
        pass
print(flush=True)
for line in sys.stdin:
    client.write(line.strip().encode())
    print(flush=True)
"""
SMALL = """
import sys
from sslsniff.kernel.loaders.loading import Loading
few = {"connections": int(sys.argv.pop(1))}
load = Loading.__init__
def load_small(self, *arguments, entries, **options):
    load(self, *arguments, entries={**entries, **few}, **options)
Loading.__init__ = load_small
from sslsniff.cli.main import main
sys.exit(main())
"""
THREADS = 4
ROOM = ("--ring-size", "256M")
MESSAGE_BYTES = 60
NAMED = re.compile(r"\b([tT])(\d+) [nN](\d+) ")


def test_an_entry_that_another_connection_has(
    certificate: Certificate, sniff: Sniff, loader: str
) -> None:
    """What the kernel does during a call is done here between two: the entry gets another key.

    Nothing is written to it, and the bytes of the call count as lost.
    """
    program = (sys.executable, "-c", WRITER, certificate.certificate, certificate.key)
    with started(*program) as process:
        next_line(process)
        with sniff("--chunks", "--loader", loader, "--pid", str(process.pid)) as sniffer:

            def write(text: str) -> None:
                say(process, text)
                next_line(process)

            write("seen")
            [(key, value)] = kernel_objects.contents(sniffer.process.pid, "connections").items()
            other = bytes(KEY_BYTES) + value[KEY_BYTES:]
            kernel_objects.overwrite(sniffer.process.pid, "connections", key, other)
            write("not seen")
            now = kernel_objects.contents(sniffer.process.pid, "connections")
            assert value[:KEY_BYTES] == key
            assert now == {key: other}
            kernel_objects.overwrite(sniffer.process.pid, "connections", key, value)
            write("again")
            captured = sniffer.stop()
    assert [each["data"]["text"] for each in captured.of("chunk")] == ["seen", "again"]
    [loss] = captured.of("loss")
    assert (loss["cause"], loss["bytes"]) == ("connection table full", len("not seen"))
    assert captured.summary["lost_bytes"] == len("not seen")
    assert captured.code == 0


@pytest.mark.parametrize(
    ("entries", "pairs", "messages"),
    [(16, 8, 80), pytest.param(65536, 8600, 2 * 8600, marks=pytest.mark.measured)],
)
def test_four_threads_and_few_entries(
    entries: int, pairs: int, messages: int, certificate: Certificate, tmp_path: Path, loader: str
) -> None:
    """More connections than entries take turns. No chunk is of another one, no byte is missing."""
    program = tmp_path / "many_threads"
    source = PROGRAMS / "c/many_threads.c"
    run("gcc", "-O2", "-pthread", "-o", program, source, "-lssl", "-lcrypto")
    counts = map(str, (THREADS, messages, MESSAGE_BYTES))
    files = (certificate.certificate, certificate.key)
    command: list[str | Path] = [program, "memory", *counts, *files, str(pairs)]
    output = tmp_path / "captured.jsonl"
    how = ("--json", "--chunks", "--force", "--loader", loader, "-o", str(output), *ROOM)
    done = subprocess.run(
        [sys.executable, "-c", SMALL, str(entries), *how, "--", *command], timeout=20 * PATIENCE_S
    )
    assert done.returncode == 0
    objects = [json.loads(line) for line in output.read_text("utf-8").splitlines()]
    captured = Captured(objects, "", 0)
    ends = defaultdict(set)
    for each in captured.of("chunk"):
        [(word, thread, number)] = set(NAMED.findall(each["data"]["text"]))
        is_client = (word == "t") == (each["direction"] == "write")
        ends[each["connection"]].add((is_client, thread, int(number) % pairs))
    assert {len(each) for each in ends.values()} == {1}
    assert len(set().union(*ends.values())) == 2 * THREADS * pairs
    assert len(ends) > 2 * THREADS * pairs, "none was evicted"
    summary = captured.summary
    passed = 2 * 2 * THREADS * messages * MESSAGE_BYTES
    assert summary["bytes"] + summary["lost_bytes"] == passed
    assert {each["cause"] for each in captured.of("loss")} <= {"connection table full"}
