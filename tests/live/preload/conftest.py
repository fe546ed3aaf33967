"""What the tests of commands without rights share."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.workload.nobody import NOBODY
from tests.workload.servers import Certificate


@pytest.fixture
def folder(certificate: Certificate) -> Iterator[Path]:
    """A folder of that user's; ``own_certificate`` is in it."""
    made = Path(tempfile.mkdtemp())
    shutil.copy(certificate.certificate, made / "certificate.pem")
    os.chown(made, int(NOBODY), int(NOBODY))
    (made / "certificate.pem").chmod(0o644)
    yield made
    shutil.rmtree(made)


@pytest.fixture
def own_certificate(folder: Path) -> Certificate:
    return Certificate(folder / "certificate.pem", folder / "none")
