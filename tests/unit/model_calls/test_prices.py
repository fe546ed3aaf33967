"""What calls of models cost: by the user's prices, and by what each API counts."""

import io
import json
from decimal import Decimal
from pathlib import Path

import pytest

from sslsniff.core.errors import PricesError
from sslsniff.core.model import Exchange
from sslsniff.decoders.inner.models.model_call import Cost, ModelCall, TokenUsage
from sslsniff.forms.json.json_lines import JsonSink
from sslsniff.forms.model_calls import money, summary
from sslsniff.model_calls.call_costs import CallCosts
from sslsniff.model_calls.prices import Prices, read_prices
from sslsniff.outputs.statistics.statistics_text import statistics_lines
from sslsniff.statistics.groups import Groups
from sslsniff.statistics.model_totals import OTHERS
from sslsniff.statistics.outcome import Outcome
from tests.unit.exchanges import exchange, request, response

TEXT = """
currency = "EUR"
[models.gpt-large]
input = 2
output = 20
[models."gpt-*"]
input = 1.25
output = 10
cached_input = 0.125
[models."claude-*"]
input = 3
output = 15
cached_input = 0.3
cache_write = 3.75
[models."gemini-*"]
input = 1
output = 4
"""


@pytest.fixture
def prices(tmp_path: Path) -> Prices:
    return read_prices(str(written(TEXT, tmp_path)))


def written(text: str, folder: Path) -> Path:
    file = folder / "prices.toml"
    file.write_text(text)
    return file


USAGES = {
    # Of each API what a million tokens cost, times how many: those in, out, cached, written.
    "gpt-small": (TokenUsage(1000, 100, cached=400), 600 * 1.25 + 100 * 10 + 400 * 0.125),
    "gpt-large": (TokenUsage(1000, 100, cached=400, written=100), 1000 * 2 + 100 * 20),
    "claude-x": (
        TokenUsage(1000, 100, cached=400, written=200, input_has_cached=False),
        1000 * 3 + 100 * 15 + 400 * 0.3 + 200 * 3.75,
    ),
    "gemini-y": (
        TokenUsage(1000, 100, cached=400, reasoning=50, output_has_reasoning=False),
        1000 * 1 + 150 * 4,
    ),
    "gpt-o": (TokenUsage(1000, 100, reasoning=50), 1000 * 1.25 + 100 * 10),
    "gpt-odd": (TokenUsage(10, -5, cached=400), 400 * 0.125),
}


@pytest.mark.parametrize("model", USAGES)
def test_each_api_counts_in_its_way(model: str, prices: Prices) -> None:
    usage, millionths = USAGES[model]
    cost = prices.cost_of(ModelCall("", None, model, usage=usage))
    assert cost is not None
    assert cost.amount is not None
    assert float(cost.amount) == pytest.approx(millionths / 1e6)
    assert cost.currency == "EUR"


def test_the_model_that_answered_comes_first(prices: Prices) -> None:
    """The one that was asked for counts where that has no price."""
    usage = TokenUsage(1_000_000)

    def cost(asked: str, answered: str | None) -> Cost | None:
        return prices.cost_of(ModelCall("", None, asked, answered_by=answered, usage=usage))

    assert cost("claude-x", "gpt-large") == Cost(Decimal(2), "EUR")
    assert cost("gpt-large", "gpt-large-2026") == Cost(Decimal("1.25"), "EUR")
    assert cost("gpt-large", "something") == Cost(Decimal(2), "EUR")
    assert cost("own", "own-2026") == Cost(None, "EUR")
    assert cost("own", None) == Cost(None, "EUR")


def test_without_figures_there_is_no_cost(prices: Prices) -> None:
    assert prices.cost_of(ModelCall("", None, "gpt-large")) is None


def called(prices: Prices, model: str, usage: TokenUsage) -> Exchange:
    made = exchange(request("POST", "/v1/chat/completions"), response())
    made.model_call = ModelCall("openai.chat", None, model, usage=usage)
    CallCosts(prices).exchange(made)
    return made


def test_outputs_show_it(prices: Prices) -> None:
    """A line, a line of JSON, and statistics of both, which agree."""
    made = [
        called(prices, "gpt-large", TokenUsage(1000, 100)),
        called(prices, "own", TokenUsage(1000, 100)),
        called(prices, "gpt-large", TokenUsage()),
    ]
    groups, of_json = Groups(()), Groups(())
    shown: list[object] = []
    for each in made:
        assert each.model_call is not None
        shown.append(summary(each, each.model_call))
        groups.add(Outcome.of(each))
        stream = io.BytesIO()
        JsonSink(stream).exchange(each)
        line = json.loads(stream.getvalue())
        of_json.add(Outcome.of_json(line))
        shown.append((line["llm"]["cost"], line["llm"]["currency"]))
    assert shown == [
        *("gpt-large, 1000 tokens in, 100 out, 0.00400 EUR", (0.004, "EUR")),
        *("own, 1000 tokens in, 100 out, no price", (None, "EUR")),
        *("gpt-large", (None, None)),
    ]
    assert groups.total().models == of_json.total().models
    table = statistics_lines(groups, 1)
    assert "0.00400 EUR" in table[-4]
    assert "no price for 1 call of own" in table


def test_models_without_a_price_are_named_within_limits(prices: Prices) -> None:
    groups = Groups(())
    for number in range(30):
        groups.add(Outcome.of(called(prices, f"own-{number}" * 20, TokenUsage(1))))
    whole = groups.total()
    whole.merge(whole)
    unpriced = whole.models.unpriced
    assert (len(unpriced), unpriced[OTHERS], sum(unpriced.values())) == (21, 20, 60)
    assert max(map(len, unpriced)) == 100


def test_tools_have_no_price(prices: Prices) -> None:
    made = exchange(request(), response())
    made.model_call = ModelCall("mcp", None, method="tools/call", usage=TokenUsage(1, 1))
    CallCosts(prices).exchange(made)
    assert made.model_call.cost is None
    CallCosts(prices).exchange(exchange(request(), response()))


@pytest.mark.parametrize(
    ("amount", "shown"),
    [
        (0, "0.00 EUR"),
        (0.00000123, "0.00000123 EUR"),
        (0.0123456, "0.0123 EUR"),
        (0.5, "0.500 EUR"),
        (1, "1.00 EUR"),
        (1234.5, "1,234.50 EUR"),
    ],
)
def test_amounts(amount: float, shown: str) -> None:
    assert money(amount, "EUR") == shown


MODEL = 'currency = "EUR"\n[models.a]\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot read {}: No such file or directory: name a file of prices"),
        ("currency", "{} is not TOML: "),
        ("", '{}: there is no currency: write such as currency = "USD"'),
        ("currency = 3", "{}: there is no currency: "),
        ('currency = "EUR"', '{}: there is no model: write such as [models."gpt-*"]'),
        ('currency = "EUR"\nmodels = 3', "{}: there is no model: "),
        ('currency = "EUR"\n[models."\\n"]\na = 1', '{}: models."\\x0a": unknown price a: use in'),
        ('currency = "EUR"\n[model.a]', "{}: unknown setting model: use currency, models"),
        (
            'currency = "EUR"\nmodels.a = 3',
            '{}: models."a" is no table of prices: write [models."a"]',
        ),
        (MODEL + "input = 1", '{}: models."a" has no output: add the price of a million tokens'),
        (MODEL + "inptu = 1", '{}: models."a": unknown price inptu: use input, output, cached_'),
        *(
            (MODEL + f"output = 1\ninput = {wrong}", '{}: models."a": input is no price: write a n')
            for wrong in ("-1", "nan", "-nan", "inf", "1e13", "true", '"1"')
        ),
    ],
)
def test_a_wrong_file(text: str | None, said: str, tmp_path: Path) -> None:
    file = written(text, tmp_path) if text is not None else tmp_path / "none.toml"
    with pytest.raises(PricesError) as error:
        read_prices(str(file))
    assert str(error.value).startswith(said.format(file))
    assert "\n" not in str(error.value)
