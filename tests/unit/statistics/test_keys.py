"""What exchanges can be grouped by is declared once, and explained."""

import re
from pathlib import Path

from sslsniff.statistics.keys import DEFAULT_KEYS, KEYS
from sslsniff.statistics.options import GROUP_BY

DOCS = Path(__file__).parents[3] / "docs/statistics.md"


def test_each_key_is_explained_once() -> None:
    _, _, table = DOCS.read_text("utf-8").partition("| key | what |\n|---|---|\n")
    rows = table.partition("\n\n")[0].splitlines()
    explained = [key for row in rows for key in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert sorted(explained) == sorted(KEYS)


def test_the_help_names_them() -> None:
    assert f"{', '.join(KEYS)} (default: {','.join(DEFAULT_KEYS)})" in GROUP_BY.help
    assert set(DEFAULT_KEYS) < set(KEYS)
