"""Where secrets are seen in programs with rustls, which only the live tests have built."""

import pytest

from sslsniff.elf.elf_file import Elf
from sslsniff.libraries.rustls.library import LIBRARY
from sslsniff.matching.key_log.chains import Chain
from tests.workload.rust.fixtures import Fixture, fixtures

pytestmark = pytest.mark.heavy


@pytest.mark.parametrize(
    "fixture", [each for each in fixtures("blocking", "server") if each.library == "rustls"]
)
def test_rustls(fixture: Fixture) -> None:
    """Two calls of TLS 1.2, with a new session and with a known one; one place of TLS 1.3."""
    with Elf(str(fixture.path)) as elf:
        found = LIBRARY.find_key_log(elf)
    assert len({each.offset for each in found.places}) == len(found.places)
    of_calls = [each for each in found.places if each.label == Chain("rsi")]
    assert [each.secret for each in of_calls] == [Chain("r9")] * 2
    if "0-21" in fixture.path.name:
        assert found.missing.startswith("no place of secrets of TLS 1.3 was found; before 0.22")
        assert len(found.places) == 2
    else:
        assert found.missing == ""
        [newer] = set(found.places) - set(of_calls)
        assert newer.random.register == newer.secret.register == newer.size.register == "rsp"
