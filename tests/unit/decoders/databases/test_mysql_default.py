"""The default database of MySQL's session. MariaDB 10.11 says the same, but where it is None."""

import pytest

from sslsniff.decoders.databases.statement import MOST_TEXT_BYTES
from sslsniff.decoders.detect import Detector
from sslsniff.decoders.messages import StatementStart
from tests.unit.decoders.databases.database_wires import (
    MY_LOGIN,
    MY_OK,
    my,
    my_answer,
    my_query,
)
from tests.unit.decoders.databases.test_mysql import ERROR, RESULT, SELECT
from tests.unit.decoders.wires import C, S, Step, run

MORE = b"\0\0\0\x0a\0\0\0"
"""An answer after which another comes."""
PREPARED = b"\0\x09\0\0\0" + bytes(7)

DEFAULTS: dict[str, str | None] = {
    "USE b": "b",
    "/* app */ USE b": "b",
    "-- c\nUSE b": "b",
    "# c\nUSE b -- c": "b",
    "USE /* c */ b /* c */;": "b",
    "USE`an``y`#c": "an`y",
    "use\tb ;; ": "b",
    "USE b; SELECT 1": "b",
    "SELECT 1--2; USE b": "b",
    "USE b; USE c; DROP DATABASE b": "c",
    "SELECT ';USE b', 'it''s', `;USE b`; SELECT 2": "shop",
    'SELECT "a\\"; USE b;"': "shop",
    "SELECT 1 -- ; USE b": "shop",
    "SELECT 1 /* ; USE b */; SELECT 2": "shop",
    "SELECT * FROM a USE INDEX (b)": "shop",
    "DROP DATABASE other": "shop",
    "DROP TABLE shop": "shop",
    "DROP DATABASE shop": None,
    "DROP SCHEMA IF EXISTS `shop`": None,
    "/*!40000 DROP DATABASE IF EXISTS `shop`*/": None,
    "/*!40000 DROP DATABASE IF EXISTS `other`*/": "shop",
    # Which versions execute these is not known.
    "/*!40000 USE b */": None,
    "SELECT 1; /*M!100100 USE b */": None,
    "USE b /*!*/": None,
    "SELECT 1; DROP DATABASE /*!32312 IF EXISTS*/ `shop`": None,
    # What is not stored may have another USE.
    "USE b; SELECT '" + "x" * MOST_TEXT_BYTES + "'": None,
    "SELECT ';" + "x" * MOST_TEXT_BYTES + "'": "shop",
}
FAILED: dict[str, str | None] = {
    "USE b": "shop",
    "SELECT 1; SELECT nothing": "shop",
    # Which of them failed is not known.
    "USE b; SELECT nothing": None,
    "USE b; USE shop; SELECT nothing": None,
}


def defaults(steps: list[Step], size: int) -> list[str | None]:
    """Return the default databases of the statements after a log-in to ``shop``."""
    messages = run(Detector(from_start=True), [*MY_LOGIN, *steps], size)
    return [each.statement.database for each in messages if isinstance(each, StatementStart)]


@pytest.mark.parametrize("text", DEFAULTS, ids=lambda text: text[:50])
@pytest.mark.parametrize("size", [1 << 30, 1])
def test_a_query_changes_the_default(text: str, size: int) -> None:
    asked = my_query(text.encode()) + SELECT
    steps: list[Step] = [(C, asked), (S, my_answer(MORE, MY_OK) + RESULT), (C, SELECT), (S, RESULT)]
    assert defaults(steps, size) == [DEFAULTS[text]] * 3


@pytest.mark.parametrize("text", FAILED)
@pytest.mark.parametrize("size", [1 << 30, 1])
def test_a_query_that_fails_may_change_it(text: str, size: int) -> None:
    steps: list[Step] = [(C, my_query(text.encode())), (S, my_answer(MORE, ERROR)), (C, SELECT)]
    assert defaults(steps, size) == [FAILED[text]] * 2


@pytest.mark.parametrize("size", [1 << 30, 1])
def test_a_prepared_use(size: int) -> None:
    """MariaDB prepares it since 10.6."""
    asked = my(0, b"\x16USE b") + my(0, b"\x17\xff\xff\xff\xff\0\1\0\0\0") + SELECT
    answers = my_answer(PREPARED) + my_answer(MY_OK) + RESULT
    assert defaults([(C, asked), (S, answers)], size) == ["b"] * 2
