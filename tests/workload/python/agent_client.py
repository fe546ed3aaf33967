"""Runs agents, each a loop of calls of a model and of its tools, by the public SDK of an API.

    python agent_client.py CERTIFICATE PORT SDK [AGENTS]

They take turns: each agent makes its first call, then each its second one. Prints as JSON what each
has done: the seconds that it spent in tools, by tool, in order.
"""

import itertools
import json
import ssl
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

TASK = "Do it."
MODEL = "test-model"
TOOL_S = {"read_file": 0.05, "run_sql": 0.1}
"""How long each tool takes."""
Done = list[tuple[str, float]]
Agent = Iterator[Done]
"""Yields after each answer what was done in tools so far."""


def openai_chat(url: str, verify: ssl.SSLContext) -> Agent:
    """Chat completions, streamed."""
    import openai

    client: Any = openai.OpenAI(
        base_url=f"{url}/v1",
        api_key="-",
        http_client=openai.DefaultHttpxClient(verify=verify),
    )
    messages: list[Any] = [{"role": "user", "content": TASK}]
    done: Done = []
    for turn in itertools.count():
        system = {"role": "system", "content": f"It is turn {turn}."}  # which changes
        with client.chat.completions.stream(model=MODEL, messages=[system, *messages]) as events:
            for _ in events:
                pass
            answer = events.get_final_completion().choices[0].message
        yield done
        if not answer.tool_calls:
            return
        messages.append(answer.model_dump(exclude_none=True, exclude={"parsed"}))
        for call in answer.tool_calls:
            result = use(call.function.name, done)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


def openai_responses(url: str, verify: ssl.SSLContext, *, names: bool = False) -> Agent:
    """Responses; ``names``: a request names the answer before it, and does not repeat it."""
    import openai

    client: Any = openai.OpenAI(
        base_url=f"{url}/v1",
        api_key="-",
        http_client=openai.DefaultHttpxClient(verify=verify),
    )
    items: list[Any] = [{"role": "user", "content": TASK}]
    more: dict[str, Any] = {}
    done: Done = []
    while True:
        answer = client.responses.create(model=MODEL, input=items, **more)
        yield done
        calls = [each for each in answer.output if each.type == "function_call"]
        if not calls:
            return
        if names:
            items, more = [], {"previous_response_id": answer.id}
        else:
            items += answer.output
        for call in calls:
            result = use(call.name, done)
            items.append(
                {"type": "function_call_output", "call_id": call.call_id, "output": result}
            )


def openai_responses_by_id(url: str, verify: ssl.SSLContext) -> Agent:
    """Responses whose requests name the answer before them."""
    return openai_responses(url, verify, names=True)


def anthropic(url: str, verify: ssl.SSLContext) -> Agent:
    """Messages."""
    import anthropic as sdk

    client: Any = sdk.Anthropic(
        base_url=url, api_key="-", http_client=sdk.DefaultHttpxClient(verify=verify)
    )
    messages: list[Any] = [{"role": "user", "content": TASK}]
    done: Done = []
    while True:
        answer = client.messages.create(model=MODEL, max_tokens=100, messages=messages)
        yield done
        calls = [each for each in answer.content if each.type == "tool_use"]
        if not calls:
            return
        results = [
            {"type": "tool_result", "tool_use_id": call.id, "content": use(call.name, done)}
            for call in calls
        ]
        messages += [
            {"role": "assistant", "content": answer.content},
            {"role": "user", "content": results},
        ]


def google_genai(url: str, verify: ssl.SSLContext) -> Agent:
    """Gemini."""
    from google import genai
    from google.genai import types

    options = types.HttpOptions(base_url=url, client_args={"verify": verify})
    client: Any = genai.Client(api_key="-", http_options=options)
    contents: list[Any] = [types.Content(role="user", parts=[types.Part(text=TASK)])]
    done: Done = []
    while True:
        answer = client.models.generate_content(model="gemini-test", contents=contents)
        yield done
        if not answer.function_calls:
            return
        results = [
            types.Part.from_function_response(
                name=call.name, response={"result": use(call.name, done)}
            )
            for call in answer.function_calls
        ]
        contents += [answer.candidates[0].content, types.Content(role="user", parts=results)]


def ollama(url: str, verify: ssl.SSLContext) -> Agent:
    """Ollama's chat."""
    import ollama as sdk

    client: Any = sdk.Client(host=url, verify=verify)
    messages: list[Any] = [{"role": "user", "content": TASK}]
    done: Done = []
    while True:
        answer = client.chat(model=MODEL, messages=messages).message
        yield done
        if not answer.tool_calls:
            return
        messages.append(answer)
        for call in answer.tool_calls:
            name = call.function.name
            messages.append({"role": "tool", "tool_name": name, "content": use(name, done)})


def use(tool: str, done: Done) -> str:
    """Use a tool; note how long that took, and return its result."""
    began_s = time.monotonic()
    time.sleep(TOOL_S[tool])
    done.append((tool, time.monotonic() - began_s))
    return f"the result of {tool}"


SDKS: dict[str, Callable[[str, ssl.SSLContext], Agent]] = {
    "openai-chat": openai_chat,
    "openai-responses": openai_responses,
    "openai-responses-by-id": openai_responses_by_id,
    "anthropic": anthropic,
    "google-genai": google_genai,
    "ollama": ollama,
}


def main() -> None:
    """Run the agents to their ends."""
    certificate, port, name, *rest = sys.argv[1:]
    verify = ssl.create_default_context(cafile=certificate)
    count = int(rest[0]) if rest else 1
    agents = [SDKS[name](f"https://localhost:{port}", verify) for _ in range(count)]
    turns = [*itertools.zip_longest(*agents)]
    print(json.dumps(turns[-1]))


if __name__ == "__main__":
    main()
