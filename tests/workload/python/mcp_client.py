"""Lists the tools of an MCP server over TLS and calls one, by the public SDK; prints the answers.

python mcp_client.py CERTIFICATE PORT
"""

import asyncio
import json
import ssl
import sys
from typing import Any

TOOL, ARGUMENTS = "get_weather", {"city": "Zürich"}


async def main() -> None:
    """Make two calls."""
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    certificate, port = sys.argv[1:]
    verify = ssl.create_default_context(cafile=certificate)
    async with httpx2.AsyncClient(verify=verify) as http:
        transport = streamable_http_client(f"https://localhost:{port}/mcp", http_client=http)
        async with Client(transport) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            content: list[Any] = (await client.call_tool(TOOL, ARGUMENTS)).content
    print(json.dumps({"tools": names, "text": "".join(part.text for part in content)}))


if __name__ == "__main__":
    asyncio.run(main())
