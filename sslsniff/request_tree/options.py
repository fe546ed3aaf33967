"""Options: exchanges in the trees of their requests."""

from sslsniff.settings.option import flag

TREE = flag(
    "--tree",
    "each request with what was done for it by other processes (docs/tree.md)",
    is_usual=True,
)
