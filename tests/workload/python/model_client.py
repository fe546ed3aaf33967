"""Calls models by the public Python SDK of an API; prints what the SDK made of the answer, as JSON.

    python model_client.py CERTIFICATE PORT SDK [stream [late-end]]

``SDK``: ``openai-chat``, ``openai-responses``, ``anthropic``, ``google-genai``, ``ollama``.
``late-end``: see ``model_server.py``; the SDK of ``openai-chat`` alone closes by itself.
"""

import json
import ssl
import sys
from collections.abc import Callable
from typing import Any

QUESTION, SYSTEM = "What is the weather in Zürich?", "Be brief."
TOOL = "get_weather"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
Answer = dict[str, Any]
_HEADERS: dict[str, str] = {}
"""What each request has, too."""


def openai_chat(url: str, verify: ssl.SSLContext, stream: bool) -> Answer:
    """Chat completions; a stream is put together by the SDK."""
    import openai

    client: Any = openai.OpenAI(
        base_url=f"{url}/v1", api_key="-", http_client=_httpx(openai, verify)
    )
    asked: dict[str, Any] = {
        "model": "gpt-test",
        "messages": [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": [{"type": "text", "text": QUESTION}]},
        ],
        "tools": [{"type": "function", "function": {"name": TOOL, "parameters": SCHEMA}}],
    }
    if stream:
        with client.chat.completions.stream(
            **asked, stream_options={"include_usage": True}
        ) as events:
            for _ in events:
                pass
            whole = events.get_final_completion()
    else:
        whole = client.chat.completions.create(**asked)
    [choice] = whole.choices
    return {
        "text": choice.message.content,
        "tool_calls": [
            [each.id, each.function.name, json.loads(each.function.arguments)]
            for each in choice.message.tool_calls
        ],
        "finish": choice.finish_reason,
        "model": whole.model,
        "tokens": [whole.usage.prompt_tokens, whole.usage.completion_tokens],
    }


def openai_responses(url: str, verify: ssl.SSLContext, stream: bool) -> Answer:
    """The Responses API."""
    import openai

    client: Any = openai.OpenAI(
        base_url=f"{url}/v1", api_key="-", http_client=_httpx(openai, verify)
    )
    asked: dict[str, Any] = {
        "model": "gpt-test",
        "instructions": SYSTEM,
        "input": QUESTION,
        "tools": [{"type": "function", "name": TOOL, "parameters": SCHEMA, "strict": False}],
    }
    if stream:
        with client.responses.stream(**asked) as events:
            for _ in events:
                pass
            whole = events.get_final_response()
    else:
        whole = client.responses.create(**asked)
    return {
        "text": whole.output_text,
        "tool_calls": [
            [each.call_id, each.name, json.loads(each.arguments)]
            for each in whole.output
            if each.type == "function_call"
        ],
        "finish": whole.status,
        "model": whole.model,
        "tokens": [whole.usage.input_tokens, whole.usage.output_tokens],
    }


def anthropic(url: str, verify: ssl.SSLContext, stream: bool) -> Answer:
    """The Messages API."""
    import anthropic as sdk

    client: Any = sdk.Anthropic(base_url=url, api_key="-", http_client=_httpx(sdk, verify))
    asked: dict[str, Any] = {
        "model": "claude-test",
        "max_tokens": 100,
        "system": SYSTEM,
        "messages": [{"role": "user", "content": QUESTION}],
        "tools": [{"name": TOOL, "input_schema": SCHEMA}],
    }
    if stream:
        with client.messages.stream(**asked) as events:
            whole = events.get_final_message()
    else:
        whole = client.messages.create(**asked)
    return {
        "text": "".join(each.text for each in whole.content if each.type == "text"),
        "reasoning": "".join(each.thinking for each in whole.content if each.type == "thinking"),
        "tool_calls": [
            [each.id, each.name, each.input] for each in whole.content if each.type == "tool_use"
        ],
        "finish": whole.stop_reason,
        "model": whole.model,
        "tokens": [whole.usage.input_tokens, whole.usage.output_tokens],
    }


def google_genai(url: str, verify: ssl.SSLContext, stream: bool) -> Answer:
    """Gemini; its SDK leaves it to its caller to put a stream together."""
    from google import genai
    from google.genai import types

    options = types.HttpOptions(base_url=url, client_args={"verify": verify})
    client: Any = genai.Client(api_key="-", http_options=options)
    function = types.FunctionDeclaration(name=TOOL, parameters_json_schema=SCHEMA)
    config = types.GenerateContentConfig(
        system_instruction=SYSTEM, tools=[types.Tool(function_declarations=[function])]
    )
    asked: dict[str, Any] = {"model": "gemini-test", "contents": QUESTION, "config": config}
    if stream:
        pieces = [*client.models.generate_content_stream(**asked)]
    else:
        pieces = [client.models.generate_content(**asked)]
    parts = [part for piece in pieces for part in piece.candidates[0].content.parts]
    usage = pieces[-1].usage_metadata
    return {
        "text": "".join(each.text for each in parts if each.text and not each.thought),
        "reasoning": "".join(each.text for each in parts if each.text and each.thought),
        "tool_calls": [
            [each.function_call.id, each.function_call.name, each.function_call.args]
            for each in parts
            if each.function_call
        ],
        "finish": pieces[-1].candidates[0].finish_reason.value,
        "model": pieces[-1].model_version,
        "tokens": [usage.prompt_token_count, usage.candidates_token_count],
    }


def ollama(url: str, verify: ssl.SSLContext, stream: bool) -> Answer:
    """Ollama's chat; its SDK leaves it to its caller to put a stream together."""
    import ollama as sdk

    client: Any = sdk.Client(host=url, verify=verify)
    asked: dict[str, Any] = {
        "model": "llama-test",
        "messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTION}],
        "tools": [{"type": "function", "function": {"name": TOOL, "parameters": SCHEMA}}],
        "stream": stream,
    }
    pieces = [*client.chat(**asked)] if stream else [client.chat(**asked)]
    return {
        "text": "".join(each.message.content or "" for each in pieces),
        "reasoning": "".join(each.message.thinking or "" for each in pieces),
        "tool_calls": [
            [None, call.function.name, dict(call.function.arguments)]
            for each in pieces
            for call in each.message.tool_calls or ()
        ],
        "finish": pieces[-1].done_reason,
        "model": pieces[-1].model,
        "tokens": [pieces[-1].prompt_eval_count, pieces[-1].eval_count],
    }


def _httpx(sdk: Any, verify: ssl.SSLContext) -> Any:
    """Return an HTTP client of the SDK's own kind that trusts the certificate."""
    return sdk.DefaultHttpxClient(verify=verify, headers=_HEADERS)


SDKS: dict[str, Callable[[str, ssl.SSLContext, bool], Answer]] = {
    "openai-chat": openai_chat,
    "openai-responses": openai_responses,
    "anthropic": anthropic,
    "google-genai": google_genai,
    "ollama": ollama,
}


def main() -> None:
    """Make one call."""
    certificate, port, name, *rest = sys.argv[1:]
    verify = ssl.create_default_context(cafile=certificate)
    if "late-end" in rest:
        _HEADERS["X-Late-End"] = "yes"
    answer = SDKS[name](f"https://localhost:{port}", verify, "stream" in rest)
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
