"""A server of the Model Context Protocol over TLS, with one tool, by the public SDK.

    python mcp_server.py CERTIFICATE KEY

Prints its port; serves until it is ended.
"""

import socket
import sys

import uvicorn
from mcp.server.mcpserver import MCPServer

tools = MCPServer("tools")


@tools.tool()
def get_weather(city: str) -> str:
    """Tell the weather."""
    return f"12 °C in {city}"


def main() -> None:
    """Serve."""
    certificate, key = sys.argv[1:]
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        print(listening.getsockname()[1], flush=True)
        config = uvicorn.Config(
            tools.streamable_http_app(),
            ssl_certfile=certificate,
            ssl_keyfile=key,
            log_level="error",
        )
        uvicorn.Server(config).run([listening])


if __name__ == "__main__":
    main()
