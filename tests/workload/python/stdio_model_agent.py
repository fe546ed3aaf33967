"""Runs an agent (``agent_client.py``) whose tools are those of an MCP server that it starts.

    python stdio_model_agent.py CERTIFICATE PORT SDK

The agent takes ``OWN_S`` before each call of a tool. Prints what ``agent_client.py`` does.
"""

import time

OWN_S = 0.03


def main() -> None:
    """Run the agent to its end."""
    import agent_client
    from stdio_agent import Server

    server = Server("pipes", "tools")
    server.ask("initialize", protocolVersion="2025-06-18", capabilities={})

    def use(tool: str, done: agent_client.Done) -> str:
        began_s = time.monotonic()
        time.sleep(OWN_S)
        answer = server.ask(
            "tools/call", name=tool, arguments={"seconds": agent_client.TOOL_S[tool]}
        )
        assert answer is not None
        done.append((tool, time.monotonic() - began_s))
        return str(answer["result"]["content"][0]["text"])

    agent_client.use = use
    agent_client.main()
    server.close()


if __name__ == "__main__":
    main()
