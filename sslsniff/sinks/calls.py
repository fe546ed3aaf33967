"""What an exchange says of the gRPC call that it is, for the sinks."""

from dataclasses import dataclass

from sslsniff.decoders import grpc
from sslsniff.model import Exchange, Request, Response


@dataclass(frozen=True, slots=True)
class Call:
    """A call: what was called, None where the path is not known, and its outcome if it has one."""

    service: str | None
    method: str | None
    status: grpc.Status | None


def call_of(exchange: Exchange) -> Call | None:
    """Return the call that ``exchange`` is; None if neither half says that it is gRPC."""
    request, response = exchange.request, exchange.response
    if not (_says_grpc(request) or _says_grpc(response)):
        return None
    service, method = grpc.split_path(request.target if request else None)
    status = grpc.status(response.trailers, response.headers) if response else None
    return Call(service, method, status)


def _says_grpc(half: Request | Response | None) -> bool:
    return half is not None and grpc.media_type_of(half.headers) is not None
