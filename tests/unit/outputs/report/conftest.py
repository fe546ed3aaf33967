"""A browser for the pages of reports."""

from collections.abc import Iterator

import pytest

from tests.workload.browser import Browser, chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A Chromium that all tests of a module use."""
    with chromium() as started:
        yield started
