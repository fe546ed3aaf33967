"""The tests that run on other kernels exist: there a wrong name shows after half an hour."""

import sys

import pytest

from tests.kernels.matrix import CASES
from tests.workload.processes import run

pytestmark = pytest.mark.slow


def test_tests_exist() -> None:
    wanted = sorted({test for case in CASES for test in case.tests})
    run(sys.executable, "-m", "pytest", "--collect-only", "-q", *wanted)  # fails for a wrong name
