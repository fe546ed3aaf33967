"""docs/sites.md says what is so."""

import pytest

from tests import site_table

pytestmark = pytest.mark.slow


def test_the_tables_are_of_the_libraries_that_there_are() -> None:
    page = site_table.PAGE.read_text("utf-8")
    assert site_table.written(page) == page, "run python -m tests.site_table"
    assert page.count("| OpenSSL 3.6 | `ssl3_read_internal` |") == 1
