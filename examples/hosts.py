"""Show which process exchanged how much with which host: ``hosts.py FILE``."""

import sys
from collections import Counter

from sslsniff import decode


def main(path: str) -> None:
    """Print bytes of bodies by process and host, the most first."""
    sent, received = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for exchange in decode(path):
        host = (exchange.request and exchange.request.host) or exchange.connection.sni or "?"
        pair = (exchange.connection.process.comm, host)
        sent[pair] += exchange.request.body.size if exchange.request else 0
        received[pair] += exchange.response.body.size if exchange.response else 0
    for comm, host in sorted(received, key=lambda each: -(sent[each] + received[each])):
        pair = (comm, host)
        print(f"{comm:15} {host:30} {sent[pair]:>10} sent {received[pair]:>10} received")


if __name__ == "__main__":
    main(sys.argv[1])
