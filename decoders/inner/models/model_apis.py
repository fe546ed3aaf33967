"""The formats of model calls: which requests may be one, by method, path and headers."""

import contextlib
import re
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from sslsniff.decoders.inner.models import (
    anthropic_messages,
    gemini,
    mcp,
    ollama,
    openai_chat,
    openai_responses,
)
from sslsniff.decoders.inner.models.json_values import Object, objects, parse_json
from sslsniff.decoders.inner.models.model_call import ModelCall
from sslsniff.decoders.inner.models.possible_calls import may_be_mcp
from sslsniff.decoders.messages import RequestHead


class ModelFormat(Protocol):
    """The readers of a format; a module has them."""

    @property
    def read_request(self) -> Callable[[ModelCall, Object], None]:
        """Read the body of a request into a call; may raise ``ValueError``: it is none."""

    @property
    def read_answer(self) -> Callable[[ModelCall, Object], None]:
        """Read the body of a response, or a piece of it, into a call."""


class ModelApi(NamedTuple):
    """An API: its name, its format, and the keys that the body of each of its requests has."""

    name: str
    format: ModelFormat
    required: tuple[str, ...]


_CHAT = ModelApi("openai.chat", openai_chat, ("model", "messages"))
_AZURE_CHAT = _CHAT._replace(required=("messages",))  # the path names the model's deployment
_BY_PATH = (
    (r"/deployments/(?P<model>[^/?]+)/chat/completions", _AZURE_CHAT),
    (r"/chat/completions", _CHAT),
    (r"/completions", ModelApi("openai.completions", openai_chat, ("model", "prompt"))),
    (r"/responses", ModelApi("openai.responses", openai_responses, ("model", "input"))),
    (r"/messages", ModelApi("anthropic.messages", anthropic_messages, ("model", "messages"))),
    (
        r"/models/(?P<model_>[^/?:]+):(?P<stream>streamG|g)enerateContent",
        ModelApi("gemini.generate", gemini, ("contents",)),
    ),
    (r"/api/chat", ModelApi("ollama.chat", ollama, ("model", "messages"))),
    (r"/api/generate", ModelApi("ollama.generate", ollama, ("model", "prompt"))),
)
_ANY_PATH = "|".join(f"(?P<api_{n}>{path})" for n, (path, _) in enumerate(_BY_PATH))
_PATH_END = re.compile(rf"(?:{_ANY_PATH})$")
_MCP = ModelApi("mcp", mcp, ("jsonrpc", "method"))

_PROVIDERS = {
    "api.openai.com": "openai",
    "openai.azure.com": "azure",
    "api.anthropic.com": "anthropic",
    "generativelanguage.googleapis.com": "google",
    "aiplatform.googleapis.com": "google",
    "api.mistral.ai": "mistral",
    "api.groq.com": "groq",
    "api.deepseek.com": "deepseek",
    "api.x.ai": "xai",
    "openrouter.ai": "openrouter",
    "ollama.com": "ollama",
}
"""Who serves models, by the end of the host's name."""
_HOST_NAME = re.compile(r"(?P<name>[^:/\[\]]+)(:\d*)?$")


class PossibleCall(NamedTuple):
    """A request that is a model call if its body fits; ``call`` has what the head says."""

    api: ModelApi
    call: ModelCall


def possible_call(head: RequestHead) -> PossibleCall | None:
    """Return what a request may be; None if it is no model call."""
    if head.target is None:
        return None
    found = _PATH_END.search(head.target.partition("?")[0])
    provider = _provider(head.authority or head.headers.first("host") or "")
    if found is None:
        return PossibleCall(_MCP, ModelCall("mcp", None)) if may_be_mcp(head.headers) else None
    api = next(api for n, (_, api) in enumerate(_BY_PATH) if found[f"api_{n}"])
    call = ModelCall(api.name, provider, found["model"] or found["model_"])
    call.streamed = found["stream"] == "streamG"
    return PossibleCall(api, call)


def answer_so_far(target: str, pieces: Iterable[bytes]) -> ModelCall | None:
    """Return what a model has answered by ``pieces`` of a streamed answer; None if it is no call.

    ``target``: of the request, whose body is not known. What is no JSON is left out: the pieces of
    other requests may be anything.
    """
    found = possible_call(RequestHead(0, "", "POST", target))
    if found is None:
        return None
    found.call.streamed = True
    for piece in pieces:
        with contextlib.suppress(ValueError):
            for each in objects(parse_json(piece)):
                found.api.format.read_answer(found.call, each)
    return found.call if found.call.has_output else None


def _provider(host: str) -> str | None:
    found = _HOST_NAME.match(host.lower())
    labels = found["name"].split(".") if found else []
    ends = (".".join(labels[start:]) for start in range(len(labels)))
    return next((_PROVIDERS[end] for end in ends if end in _PROVIDERS), None)
