"""Decode plaintext that another program has, here a request and its response: ``own_bytes.py``."""

from sslsniff import Chunk, Connection, Direction, Process, Side, decode

REQUEST = b"GET /health HTTP/1.1\r\nHost: api.example\r\n\r\n"
RESPONSE = b'HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n{"status":"ok"}'


def main() -> None:
    """Print what was decoded."""
    connection = Connection(
        id="1-1",
        process=Process(pid=1, comm="client"),
        library="other",
        role=Side.CLIENT,
        from_start=True,
        opened_ns=0,
    )
    chunks = [
        Chunk(connection, Direction.WRITE, time_ns=1_000_000, tid=1, offset=0, data=REQUEST),
        Chunk(connection, Direction.READ, time_ns=3_500_000, tid=1, offset=0, data=RESPONSE),
    ]
    for exchange in decode(chunks):
        assert exchange.request is not None
        assert exchange.response is not None
        print(exchange.request.url, exchange.response.status, exchange.response.body.data.decode())


if __name__ == "__main__":
    main()
