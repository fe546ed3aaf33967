"""Write the exchanges of a capture file as CSV: ``to_csv.py FILE > exchanges.csv``."""

import csv
import sys
from datetime import UTC, datetime

from sslsniff import decode

COLUMNS = ("time", "process", "protocol", "method", "url", "status", "response bytes", "error")


def main(path: str) -> None:
    """Write a line for each exchange to standard output."""
    table = csv.writer(sys.stdout)
    table.writerow(COLUMNS)
    for exchange in decode(path):
        request, response = exchange.request, exchange.response
        row = (
            datetime.fromtimestamp(exchange.started_ns / 1e9, UTC).isoformat(),
            exchange.connection.process.comm,
            exchange.protocol,
            request.method if request else None,
            request.url if request else None,
            response.status if response else None,
            response.body.size if response else None,
            exchange.error,
        )
        table.writerow(row)


if __name__ == "__main__":
    main(sys.argv[1])
