"""A gRPC server by grpcio, for grpc_client.py: it sends each message back.

    python grpcio_echo.py CERTIFICATE KEY

It prints its port, and ends with its standard input.
"""

import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc


def introduce(context: grpc.ServicerContext) -> None:
    """Send the metadata that the client expects: its nonce, and its own address."""
    metadata = dict(context.invocation_metadata())
    _, _, client = context.peer().partition(":")
    context.send_initial_metadata((("x-nonce", metadata["x-nonce"]), ("x-client", client)))


def unary(message: bytes, context: grpc.ServicerContext) -> bytes:
    """Send a message back."""
    introduce(context)
    return message


def streaming(messages: Iterable[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
    """Send each message back as it comes."""
    introduce(context)
    yield from messages


METHODS = {
    "Unary": grpc.unary_unary_rpc_method_handler(unary),
    "Streaming": grpc.stream_stream_rpc_method_handler(streaming),
}


def main() -> None:
    """Serve until the standard input ends."""
    certificate, key = (Path(each).read_bytes() for each in sys.argv[1:])
    server = grpc.server(ThreadPoolExecutor(16))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Echo", METHODS),))
    credentials = grpc.ssl_server_credentials(((key, certificate),))
    print(server.add_secure_port("127.0.0.1:0", credentials), flush=True)
    server.start()
    sys.stdin.read()
    server.stop(None)


if __name__ == "__main__":
    main()
