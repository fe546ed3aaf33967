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
    """Return the call that ``exchange`` is; None if neither request nor response is gRPC's.

    A response whose head was not seen is gRPC's if its trailers have a status of gRPC.
    """
    request, response = exchange.request, exchange.response
    is_named = (request is not None and grpc.media_type_of(request.headers) is not None) or (
        response is not None and grpc.media_type_of(response.headers) is not None
    )
    if not is_named and (response is None or response.status is not None):
        return None
    status = grpc.status(response.trailers, response.headers) if response else None
    if not is_named and status is None:
        return None
    service, method = grpc.split_path(request.target if request else None)
    return GrpcCall(service, method, status)
