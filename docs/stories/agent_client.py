"""The agent: asks the model, and runs the tools that it calls: ``agent_client PORT``."""

import asyncio
import sys
from typing import Any

from docs.stories.system import client_tls


async def main() -> None:
    """Answer one question."""
    import anthropic
    from mcp import Client, StdioServerParameters
    from mcp.client.stdio import stdio_client

    http = anthropic.DefaultAsyncHttpxClient(verify=client_tls())
    url = f"https://localhost:{sys.argv[1]}"
    model: Any = anthropic.AsyncAnthropic(base_url=url, api_key="-", http_client=http)
    tools = StdioServerParameters(command=sys.executable, args=["-m", "docs.stories.agent_tools"])
    messages: list[Any] = [{"role": "user", "content": "Why was ticket 4711 not refunded?"}]
    async with Client(stdio_client(tools)) as client:
        await client.list_tools()
        while True:
            answer = await model.messages.create(
                model="claude-test", max_tokens=500, messages=messages
            )
            calls = [part for part in answer.content if part.type == "tool_use"]
            if not calls:
                return
            results = []
            for call in calls:
                done = await client.call_tool(call.name, call.input)
                text = "".join(getattr(part, "text", "") for part in done.content)
                result = {"type": "tool_result", "tool_use_id": call.id, "content": text}
                results.append({**result, "is_error": bool(done.is_error)})
            messages.append({"role": "assistant", "content": answer.content})
            messages.append({"role": "user", "content": results})


if __name__ == "__main__":
    asyncio.run(main())
