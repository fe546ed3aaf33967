"""The tools of the agent, as an MCP server on its standard input and output."""

import time

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

tools = MCPServer("support")


@tools.tool()
def search_tickets(text: str) -> str:
    """Find tickets."""
    return f"4711: {text}"


@tools.tool()
def read_ticket(number: int) -> str:
    """Return a ticket."""
    return f"{number}: " + "The customer asks for a refund. " * 200


@tools.tool()
def query_ledger(statement: str) -> str:
    """Run a statement in the ledger."""
    time.sleep(1.5)
    if "payment " not in statement:
        raise ToolError("no such table")
    return "no row"


if __name__ == "__main__":
    tools.run("stdio")
