"""An agent and its server of MCP on standard input and output, by the public SDK.

    python mcp_stdio.py agent [COMMAND...]
    python mcp_stdio.py serve

The agent starts ``COMMAND``, by default the server here, and calls tools that this server and the
public ``server-everything`` have. It prints what it got as JSON.
"""

import asyncio
import json
import sys
from typing import Any

PATH = "x" * (1 << 20)


def serve() -> None:
    """Serve."""
    from mcp.server.mcpserver import Context, MCPServer

    tools = MCPServer("tools")

    @tools.tool()
    def echo(message: str) -> str:
        """Say it again."""
        return f"Echo: {message}"

    @tools.tool()
    async def slow(context: Context[Any, Any]) -> str:
        """Report progress."""
        for number in range(3):
            await context.report_progress(number, 3)
        return "done"

    tools.run("stdio")


async def agent(command: list[str]) -> None:
    """Make calls."""
    from mcp import Client, StdioServerParameters
    from mcp.client.stdio import stdio_client

    got: dict[str, Any] = {}
    parameters = StdioServerParameters(command=command[0], args=command[1:])
    async with Client(stdio_client(parameters)) as client:
        got["tools"] = [tool.name for tool in (await client.list_tools()).tools]
        for message in ("hello", PATH):
            answer: Any = await client.call_tool("echo", {"message": message})
            got.setdefault("echo", []).append(answer.content[0].text)
        if "slow" in got["tools"]:
            reports: list[float] = []

            async def note(progress: float, total: float | None, message: str | None) -> None:
                reports.append(progress)

            await client.call_tool("slow", {}, progress_callback=note)
            got["progress"] = reports
        unknown: Any = await client.call_tool("no_such_tool", {})
        got["error"] = unknown.content[0].text
    print(json.dumps(got))


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve()
    else:
        asyncio.run(agent(sys.argv[2:] or [sys.executable, __file__, "serve"]))
