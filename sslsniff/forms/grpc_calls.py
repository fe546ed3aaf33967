"""Recognises the exchanges that are gRPC calls, for the sinks."""

from dataclasses import dataclass

from sslsniff.core.model import Exchange
from sslsniff.decoders.inner import grpc


@dataclass(frozen=True, slots=True)
class GrpcCall:
    """A call; service and method are None if the path is not known, ``status`` if there is none."""

    service: str | None
    method: str | None
    status: grpc.Status | None


def call_of(exchange: Exchange) -> GrpcCall | None:
    """Return the call that ``exchange`` is; None if neither request nor response is gRPC's."""
    request, response = exchange.request, exchange.response
    if (request is None or grpc.media_type_of(request.headers) is None) and (
        response is None or grpc.media_type_of(response.headers) is None
    ):
        return None
    service, method = grpc.split_path(request.target if request else None)
    status = grpc.status(response.trailers, response.headers) if response else None
    return GrpcCall(service, method, status)
