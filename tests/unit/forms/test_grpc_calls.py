"""A gRPC call of which only the end was seen is known by its trailers."""

import pytest

from sslsniff.core.model import NO_BODY, Connection, Exchange, Response
from sslsniff.core.process import Process
from sslsniff.decoders.inner.grpc import Status
from sslsniff.decoders.messages import Header, Headers
from sslsniff.forms.grpc_calls import GrpcCall, call_of

OK = ("grpc-status", "0")


@pytest.mark.parametrize(
    ("status", "trailers", "expected"),
    [
        (None, [OK], GrpcCall(None, None, Status(0, ""))),
        (None, [], None),
        (None, [(None, None)], None),
        (200, [OK], None),  # its head says that it is something else
    ],
)
def test_the_head_was_not_seen(
    status: int | None, trailers: list[Header], expected: GrpcCall | None
) -> None:
    connection = Connection("7-1", Process(7, "demo"), "openssl", None, False, 0)
    response = Response(status, "", Headers(), NO_BODY, trailers)
    assert call_of(Exchange(connection, "http/2", 1, 7, 0, response=response)) == expected
    assert call_of(Exchange(connection, "http/2", 1, 7, 0)) is None
