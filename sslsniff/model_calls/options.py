"""Options: what calls of language models cost."""

from sslsniff.settings import values
from sslsniff.settings.option import value

PRICES = value(
    "--prices",
    values.name,
    "FILE",
    "what calls of language models cost, by the prices of a TOML file (docs/model-calls.md)",
    setting=("models", "prices"),
    is_usual=True,
)
