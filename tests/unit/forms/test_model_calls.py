"""What a line says of a model call."""

import pytest

from sslsniff.decoders.inner.models.model_call import ModelCall, TokenUsage
from sslsniff.forms.model_calls import llm_object, summary, token_counts
from tests.unit.exchanges import START_NS, exchange, request, response

USAGES = {
    "21 tokens in, 9 out": TokenUsage(21, 9),
    "21 tokens in, ? out": TokenUsage(21),
    "? tokens in, 9 out": TokenUsage(output=9),
    "21 tokens in (16 cached), 9 out": TokenUsage(21, 9, cached=16, written=0),
    "21 tokens in (16 cached, 2 written), 9 out": TokenUsage(21, 9, cached=16, written=2),
    "3 tokens in (+7 cached, +128 written), 9 out": TokenUsage(
        3, 9, cached=7, written=128, input_has_cached=False
    ),
}


@pytest.mark.parametrize("said", USAGES)
def test_tokens(said: str) -> None:
    """What a cache had or got is part of the input, or beside it (+), as the API counts."""
    call = ModelCall("openai.chat", None, "m", usage=USAGES[said])
    made = exchange(request("POST", "/v1/chat/completions"), response())
    assert summary(made, call) == f"m, {said}"
    assert ", ".join(token_counts(llm_object(call, START_NS)["usage"])) == said


def test_no_tokens() -> None:
    call = ModelCall("openai.chat", None, "m")
    assert summary(exchange(request(), response()), call) == "m"
