"""Show the slowest exchanges of a capture file: ``slowest.py FILE [HOW_MANY]``."""

import heapq
import sys

from sslsniff import Exchange, decode


def milliseconds(exchange: Exchange) -> float:
    """Return how long an exchange took, from the first byte of its request to its last byte."""
    return ((exchange.ended_ns or exchange.started_ns) - exchange.started_ns) / 1e6


def main(path: str, count: int = 5) -> None:
    """Print the slowest exchanges of the file ``path``, the slowest first."""
    seen = (each for each in decode(path) if each.request is not None)
    for exchange in heapq.nlargest(count, seen, key=milliseconds):
        status = exchange.response.status if exchange.response else "no response"
        assert exchange.request is not None
        url = exchange.request.url
        print(f"{milliseconds(exchange):9.1f} ms  {status}  {exchange.request.method} {url}")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:3]))
