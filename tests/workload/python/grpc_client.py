"""A gRPC client by grpcio: gRPC's own core in C.

    python grpc_client.py PORT CERTIFICATE COUNT...

Makes COUNT calls on each connection, 20 at once, every other one a stream of messages, and tells of
them as the other clients do; its bodies are messages with their prefixes.
"""

import hashlib
import json
import secrets
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
from google.protobuf.wrappers_pb2 import BytesValue
from server import pattern

SERVICE = "test.Echo"
SIZES = (0, 1 << 10, 1 << 20)
LARGE = 20  # calls of all sizes, after these of the smaller
AT_ONCE = 20
STREAMED_SIZES = (0, 1, 1 << 10, 1 << 14, 1 << 16)


def message(size: int) -> bytes:
    """Return a message with a field of so many bytes."""
    return BytesValue(value=pattern(size)).SerializeToString()


def framed(messages: Iterable[bytes]) -> bytes:
    """Return them as they are sent (PROTOCOL-HTTP2.md, Length-Prefixed-Message), not compressed."""
    return b"".join(b"\0" + len(each).to_bytes(4, "big") + each for each in messages)


def call(channel: grpc.Channel, port: int, number: int) -> str:
    """Make a call; return what is told of it."""
    nonce = secrets.token_hex(12)
    metadata = (("x-nonce", nonce),)
    if number % 2:
        method = f"/{SERVICE}/Streaming"
        streamed = STREAMED_SIZES if number < LARGE else STREAMED_SIZES[:3]
        asked = [message(size) for size in streamed]
        made = channel.stream_stream(method)(iter(asked), metadata=metadata)
        answered = list(made)
    else:
        method = f"/{SERVICE}/Unary"
        sizes = SIZES if number < LARGE else SIZES[:2]
        asked = [message(sizes[number // 2 % len(sizes)])]
        answer, made = channel.unary_unary(method).with_call(asked[0], metadata=metadata)
        answered = [answer]
    host, client_port = dict(made.initial_metadata())["x-client"].split(":")
    return json.dumps(
        {
            "nonce": nonce,
            "protocol": "http/2",
            "method": "POST",
            "target": method,
            "status": 200,
            "client": (host, int(client_port)),
            "server": ("127.0.0.1", port),
            "request_sha256": hashlib.sha256(framed(asked)).hexdigest(),
            "response_sha256": hashlib.sha256(framed(answered)).hexdigest(),
        }
    )


def connect(port: int, certificate: str) -> grpc.Channel:
    """Return a channel with a connection of its own."""
    credentials = grpc.ssl_channel_credentials(Path(certificate).read_bytes())
    options = (("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0))
    return grpc.secure_channel(f"127.0.0.1:{port}", credentials, options)


def main() -> None:
    """Make the calls."""
    port, certificate, counts = int(sys.argv[1]), sys.argv[2], [*map(int, sys.argv[3:])]
    channels = [connect(port, certificate) for _ in counts]
    with ThreadPoolExecutor(AT_ONCE) as calling:
        told = [
            calling.submit(call, channel, port, number)
            for channel, count in zip(channels, counts, strict=True)
            for number in range(count)
        ]
    for each in told:
        print(each.result())
    for channel in channels:
        channel.close()


if __name__ == "__main__":
    main()
