"""A client of asyncio, whose TLS library gets its bytes through memory: ``KIND PORT COUNT FOLDER``.

The arguments are those of failing_handshakes.py, which is the server.
"""

import asyncio
import contextlib
import ssl
import sys
from pathlib import Path

PATIENCE_S = 10
IMPATIENT_S = 0.5


async def connect(kind: str, port: int, folder: Path) -> None:
    trusted = folder / ("stranger.pem" if kind == "untrusted" else "authority.pem")
    context = ssl.create_default_context(cafile=str(trusted))
    async with asyncio.timeout(IMPATIENT_S if kind == "timeout" else PATIENCE_S):
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=context, server_hostname="localhost"
        )
        await reader.read(100)
        writer.close()


for _ in range(int(sys.argv[3])):
    with contextlib.suppress(OSError, TimeoutError):
        asyncio.run(connect(sys.argv[1], int(sys.argv[2]), Path(sys.argv[4])))
