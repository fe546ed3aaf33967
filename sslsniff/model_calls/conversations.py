"""Names a conversation by a digest, so that none of its text needs to be kept.

A digest covers the messages of a request up to one of them. What a client may write otherwise when
it sends the same again does not count: white space, the order of the keys of arguments, how an
answer is divided into messages. Neither do system prompts, which agents change on their way (the
time of day, reminders), and reasoning, which few send back.
"""

from collections.abc import Iterable, Iterator
from hashlib import blake2b

import orjson

from sslsniff.decoders.inner.models.model_call import ModelCall, ToolCall, Turn

_DIGEST_BYTES = 16
_OF_MODEL = frozenset(("assistant", "model"))
_OF_SYSTEM = frozenset(("system", "developer"))
UNKNOWN = "?"
"""The role of items that are no messages, such as reasoning; the id of a result without one."""

Digest = bytes


def digests(call: ModelCall) -> list[Digest]:
    """Return the digest of a request's conversation after each of its messages.

    Messages of the model that follow each other count as one.
    """
    return [*_digests(call.messages, has_ids=_has_ids(call))]


def digest_with_answer(call: ModelCall) -> Digest | None:
    """Return the digest of the conversation with the answer; None if it has no messages."""
    answer = Turn("assistant", "".join(call.texts), tool_calls=call.tool_calls)
    found = [*_digests([*call.messages, answer], has_ids=_has_ids(call))]
    return found[-1] if call.messages else None


def new_turns(call: ModelCall) -> Iterator[Turn]:
    """Yield the messages of a request after the last one of the model, the last one first."""
    for turn in reversed(call.messages):
        if turn.role in _OF_MODEL:
            return
        yield turn


def digest_of_id(id: str) -> Digest:
    """Return what stands for the answer with this id, which a later request may name."""
    return blake2b(id.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).digest()


def _has_ids(call: ModelCall) -> bool:
    """Return whether clients send back the ids of tool calls; those of Ollama do not."""
    return not call.api.startswith("ollama")


def _digests(turns: Iterable[Turn], *, has_ids: bool) -> Iterator[Digest]:
    state = b""
    text, calls = "", []  # of messages of the model, which may be several
    for turn in turns:
        if turn.role in _OF_SYSTEM:
            continue
        if turn.role in _OF_MODEL:
            text += turn.text
            calls += [_tool_call(each, has_ids=has_ids) for each in turn.tool_calls]
        elif turn.role != UNKNOWN or turn.text:
            if text or calls:
                state = _next(state, "model", _bare(text), calls)
                yield state
                text, calls = "", []
            state = _next(state, turn.role, _bare(turn.text), [*turn.other, "", *turn.results])
            yield state
    if text or calls:
        yield _next(state, "model", _bare(text), calls)


def _next(state: Digest, *parts: object) -> Digest:
    data = repr(parts).encode("utf-8", "surrogatepass")
    return blake2b(state + data, digest_size=_DIGEST_BYTES).digest()


def _bare(text: str) -> str:
    """Return text without white space: messages join parts by line ends, answers do not."""
    return "".join(text.split())


def _tool_call(call: ToolCall, *, has_ids: bool) -> tuple[str | None, str | None, str]:
    arguments = call.arguments or "{}"
    try:
        arguments = orjson.dumps(orjson.loads(arguments), option=orjson.OPT_SORT_KEYS).decode()
    except ValueError:
        arguments = _bare(arguments)
    return call.id if has_ids else None, call.name, arguments
