"""Exchanges made by hand."""

from sslsniff.core.model import Address, Body, Connection, Exchange, Request, Response
from sslsniff.core.process import Process
from sslsniff.decoders.messages import Header, Headers, Side

START_NS = 1_700_000_000_123_456_000


def connection(number: int = 1, pid: int = 7, comm: str = "curl") -> Connection:
    return Connection(
        id=f"{pid}-{number}",
        process=Process(pid, comm),
        library="openssl",
        role=Side.CLIENT,
        from_start=True,
        opened_ns=START_NS,
        local=Address("127.0.0.1", 40000 + number),
        remote=Address("127.0.0.1", 8443),
    )


def request(
    method: str = "GET",
    target: str = "/",
    headers: list[Header] | None = None,
    body: bytes = b"",
    authority: str | None = "example.org",
) -> Request:
    return Request(
        method, target, "https", authority, Headers(headers or []), Body(len(body), body)
    )


def response(
    status: int = 200, headers: list[Header] | None = None, body: bytes = b"", reason: str = "OK"
) -> Response:
    return Response(status, reason, Headers(headers or []), Body(len(body), body))


def exchange(
    asked: Request | None = None,
    answered: Response | None = None,
    on: Connection | None = None,
    error: str | None = None,
    protocol: str = "http/1.1",
) -> Exchange:
    """Return an exchange of 5 ms: the request sent after 1, the response begun after 3."""
    return Exchange(
        connection=on or connection(),
        protocol=protocol,
        stream=None if protocol.startswith("http/1") else 1,
        tid=7,
        started_ns=START_NS,
        first_byte_ns=START_NS + 3_000_000 if answered else None,
        ended_ns=START_NS + 5_000_000,
        request=asked,
        response=answered,
        error=error,
    )
