"""A gRPC server and a client by grpclib: h2 in Python, over Python's ssl.

    python grpclib_echo.py server CERTIFICATE KEY
    python grpclib_echo.py client CERTIFICATE PORT COUNT

The server prints its port. The client waits for a line on standard input, then makes a unary
call, a stream of COUNT messages each way, and a call that fails.
"""

import asyncio
import contextlib
import ssl
import sys
from typing import Any

from google.protobuf.wrappers_pb2 import StringValue
from grpclib.client import Channel, StreamStreamMethod, UnaryUnaryMethod
from grpclib.const import Cardinality, Handler, Status
from grpclib.exceptions import GRPCError
from grpclib.server import Server

SERVICE = "demo.Echo"


class Echo:
    """Says again what it is told."""

    async def say(self, stream: Any) -> None:
        """Answer one message."""
        request = await stream.recv_message()
        await stream.send_message(StringValue(value=request.value.upper()))

    async def chat(self, stream: Any) -> None:
        """Answer each message as it comes."""
        async for request in stream:
            await stream.send_message(StringValue(value=request.value[::-1]))

    async def fail(self, stream: Any) -> None:
        """Fail."""
        await stream.recv_message()
        raise GRPCError(Status.NOT_FOUND, "no such thing: café")

    def __mapping__(self) -> dict[str, Handler]:
        """Return what is served by path."""
        one, many = Cardinality.UNARY_UNARY, Cardinality.STREAM_STREAM
        return {
            f"/{SERVICE}/Say": Handler(self.say, one, StringValue, StringValue),
            f"/{SERVICE}/Chat": Handler(self.chat, many, StringValue, StringValue),
            f"/{SERVICE}/Fail": Handler(self.fail, one, StringValue, StringValue),
        }


async def serve(certificate: str, key: str) -> None:
    """Be the server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.set_alpn_protocols(["h2"])
    server = Server([Echo()])
    await server.start("127.0.0.1", 0, ssl=context)
    assert isinstance(server._server, asyncio.Server)
    print(server._server.sockets[0].getsockname()[1], flush=True)
    await server.wait_closed()


async def call(certificate: str, port: int, count: int) -> None:
    """Be the client."""
    sys.stdin.readline()
    context = ssl.create_default_context(cafile=certificate)
    context.set_alpn_protocols(["h2"])
    async with Channel("localhost", port, ssl=context) as channel:
        say = UnaryUnaryMethod(channel, f"/{SERVICE}/Say", StringValue, StringValue)
        assert (await say(StringValue(value="hello"))).value == "HELLO"
        chat = StreamStreamMethod(channel, f"/{SERVICE}/Chat", StringValue, StringValue)
        async with chat.open() as stream:
            for number in range(count):
                await stream.send_message(StringValue(value=f"message {number}"))
                reply = await stream.recv_message()
                assert reply is not None
                assert reply.value == f"message {number}"[::-1]
            await stream.end()
        fail = UnaryUnaryMethod(channel, f"/{SERVICE}/Fail", StringValue, StringValue)
        with contextlib.suppress(GRPCError):
            await fail(StringValue(value="?"))


if __name__ == "__main__":
    role, certificate, *more = sys.argv[1:]
    if role == "server":
        asyncio.run(serve(certificate, more[0]))
    else:
        asyncio.run(call(certificate, int(more[0]), int(more[1])))
