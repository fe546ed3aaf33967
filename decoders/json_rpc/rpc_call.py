"""A call by JSON-RPC 2.0, with what came of it (https://www.jsonrpc.org/specification)."""

import sys
from dataclasses import dataclass

MCP, LSP, JSON_RPC = "mcp", "lsp", "json-rpc"
"""Protocols of calls, as shown to users: the Model Context Protocol, that of language servers, and
any other."""
PROTOCOLS = (MCP, LSP, JSON_RPC)

MOST_CHARACTERS = 64 << 10
"""Stored of the parameters of a call, and of its result."""

Id = str | int | float | None


@dataclass(slots=True)
class RpcCall:
    """A call. None marks what was not seen, or what there is not.

    ``by_server``: who was started asks who started it. ``name``: of the tool, the prompt or the
    resource. ``parameters``, ``result``: JSON text, cut to ``MOST_CHARACTERS``.
    ``request_bytes``, ``response_bytes``: of the whole messages.
    ``error``, ``code``: what the answer says of a failure; a tool that failed has no code.
    ``progress``: how many notifications of progress came. ``cancelled``: the client's reason, empty
    if it gave none. ``fault``: why not all is shown.
    """

    protocol: str
    method: str
    id: Id
    by_server: bool = False
    name: str | None = None
    parameters: str | None = None
    request_bytes: int = 0
    result: str | None = None
    response_bytes: int = 0
    error: str | None = None
    code: int | None = None
    progress: int = 0
    cancelled: str | None = None
    fault: str | None = None

    @property
    def held_bytes(self) -> int:
        """About how much memory its texts take."""
        return sum(sys.getsizeof(each or "") for each in (self.method, self.name, self.parameters))
