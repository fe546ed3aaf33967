"""A WebSocket server that echoes, and a client, by websockets over Python's ssl.

    python websocket_echo.py server CERTIFICATE KEY
    python websocket_echo.py client CERTIFICATE PORT

The server prints its port. The client connects and says so in a line; for each number read from
standard input it sends so many messages, reads what comes back, and prints a line; then it closes.
"""

import asyncio
import contextlib
import ssl
import sys

import websockets


def message(number: int) -> str | bytes:
    """Return a message: text, bytes, or one that is sent in fragments."""
    if number % 2:
        return bytes(range(256)) * (number % 7)
    return f"message {number} with something that comes again " * (1 + number % 5)


async def echo(connection: websockets.ServerConnection) -> None:
    """Send back what comes."""
    with contextlib.suppress(websockets.ConnectionClosed):
        async for each in connection:
            await connection.send(each)


async def serve(certificate: str, key: str) -> None:
    """Be the server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    async with websockets.serve(echo, "127.0.0.1", 0, ssl=context) as server:
        print(next(iter(server.sockets)).getsockname()[1], flush=True)
        await server.serve_forever()


async def talk(certificate: str, port: int) -> None:
    """Be the client."""
    context = ssl.create_default_context(cafile=certificate)
    async with websockets.connect(f"wss://localhost:{port}/chat?room=1", ssl=context) as connection:
        print("connected", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            for number in range(int(line)):
                sent = message(number)
                if number % 3 == 2:  # as fragments
                    half = len(sent) // 2
                    await connection.send([sent[:half], sent[half:]])
                else:
                    await connection.send(sent)
                assert await connection.recv() == sent
            print("done", flush=True)
        await (await connection.ping(b"still there"))
        await connection.close(4000, "enough")


if __name__ == "__main__":
    role, certificate, more = sys.argv[1], sys.argv[2], sys.argv[3]
    asyncio.run(serve(certificate, more) if role == "server" else talk(certificate, int(more)))
