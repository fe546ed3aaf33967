from collections.abc import Callable

import pytest

from tests.unit.decoders.wires import check


@pytest.fixture
def assert_decodes() -> Callable[..., None]:
    """Run each case whole, byte by byte and with trailing bytes."""
    return check
