"""The remedy for a missing package works where sslsniff is installed."""

import sys
from importlib.metadata import requires
from pathlib import Path

import pytest

from sslsniff.destinations.missing_packages import _PACKAGES, how_to_install


@pytest.mark.parametrize("extra", _PACKAGES)
def test_the_packages_of_extras(extra: str) -> None:
    of_extra = [each for each in requires("sslsniff") or [] if f"extra == '{extra}'" in each]
    names = [each.partition(">")[0] for each in of_extra]
    assert names == _PACKAGES[extra].split()


def test_by_the_way_of_installation(tmp_path: Path) -> None:
    deb = Path("/usr/lib/sslsniff/sslsniff/destinations/missing_packages.py")
    assert how_to_install("kafka", deb) == (
        "sudo python3 -m pip install --target /var/lib/sslsniff/packages confluent-kafka protobuf"
    )
    here = tmp_path / "here.py"
    assert how_to_install("parquet", here, tmp_path) == (
        f"uv pip install --python {tmp_path} pyarrow"
    )
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "pip").touch()
    assert how_to_install("parquet", here, tmp_path) == f"{tmp_path}/bin/pip install pyarrow"
    (tmp_path / "pipx_metadata.json").touch()
    assert how_to_install("parquet", here, tmp_path) == "pipx inject sslsniff pyarrow"
    assert how_to_install("parquet").startswith(sys.prefix)
