"""Database servers that several files of tests ask."""

from collections.abc import Iterator

import pytest

from tests.workload.databases import DATABASES, Database
from tests.workload.servers import Certificate


@pytest.fixture(scope="module")
def postgresql(certificate: Certificate) -> Iterator[Database]:
    with DATABASES["postgresql"](certificate) as running:
        yield running


@pytest.fixture(scope="module")
def mysql(certificate: Certificate) -> Iterator[Database]:
    with DATABASES["mysql"](certificate) as running:
        yield running
