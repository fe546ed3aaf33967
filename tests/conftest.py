"""What all tests share."""

import os
import signal
from collections.abc import Generator

import pytest
from hypothesis import settings

from tests import libraries

# A machine under load is slow, and nothing here tests its speed.
settings.register_profile("sslsniff", deadline=None)
settings.load_profile("sslsniff")

# The size of another terminal, or of none (in a process of pytest-xdist).
for name in ("COLUMNS", "LINES"):
    os.environ.pop(name, None)

# A shell ignores Ctrl-C and Ctrl-\ for what runs in its background; programs would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)


@pytest.hookimpl(tryfirst=True)  # before tests are selected by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tell which tests fetch more, and which row of docs/reliability.md a test is for."""
    for item in items:
        call = getattr(item, "callspec", None)
        if call and any(map(libraries.is_of_another_release, call.params.values())):
            item.add_marker("heavy")
        for mark in item.iter_markers("reliability"):
            item.user_properties += zip(("kind", "what"), mark.args, strict=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Escape what a test logs and cannot be encoded: processes of pytest-xdist send reports."""
    report = yield
    report.sections = [
        (name, shown.encode(errors="backslashreplace").decode()) for name, shown in report.sections
    ]
    return report
