"""What a call of GnuTLS costs under sslsniff, and under bcc's tool."""

from collections.abc import Iterator

from bench.loads import GnutlsMessages, own_folder
from bench.peers import Bcc
from bench.rows import Row
from bench.watches import Sslsniff, compare

_MESSAGES = {64: 60_000, 1024: 60_000, 16384: 15_000}


class _BccGnutls(Bcc):
    """bcc's tool, for GnuTLS only."""

    others = ("--no-openssl", "--no-nss")


def measure() -> Iterator[Row]:
    """Let a program send while nobody, sslsniff and bcc's tool watch; compare."""
    with own_folder() as (folder, certificate):
        sslsniff, peer = Sslsniff(folder), _BccGnutls(folder)
        with GnutlsMessages(folder, certificate) as program:
            costs = compare(program, [sslsniff, peer], _MESSAGES)
    for size in _MESSAGES:
        ours = costs[sslsniff.name, size]
        note = f"{sslsniff.lost_bytes} bytes of all sizes lost"
        yield Row(f"GnuTLS, {size} B: rate left", 100 * ours.rate, "%", note=note)
        yield Row(f"GnuTLS, {size} B: added to a call", ours.added_us, "us")
        ratio = costs[peer.name, size].added_us / ours.added_us
        yield Row(f"GnuTLS, {size} B: {peer.name} adds", ratio, "times", least=4)
