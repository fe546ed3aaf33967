"""Says how an optional package is installed where sslsniff runs: that depends on how it came there.

It names the packages themselves, not extras of sslsniff, which may be on no index.
"""

import sys
from pathlib import Path

_PACKAGES = {
    "agent": "prometheus-client",
    "kafka": "confluent-kafka protobuf",
    "otlp": "opentelemetry-exporter-otlp",
    "parquet": "pyarrow",
    "protobuf": "protobuf",
}
"""What an extra of ``pyproject.toml`` installs."""

_DEBIAN_FOLDER = Path("/usr/lib/sslsniff")

_BESIDE_DEBIAN = Path("/var/lib/sslsniff/packages")
"""Where the launcher of the Debian package (Makefile) looks for what that package does not have."""


def how_to_install(extra: str, folder: Path = Path(__file__), prefix: Path | None = None) -> str:
    """Return the command that installs the packages of ``extra``, or the way to be able to.

    ``folder``: where sslsniff is. ``prefix``: that of its Python.
    """
    packages = _PACKAGES[extra]
    prefix = Path(sys.prefix) if prefix is None else prefix
    if folder.is_relative_to(_DEBIAN_FOLDER):
        return f"sudo python3 -m pip install --target {_BESIDE_DEBIAN} {packages}"
    if (prefix / "pipx_metadata.json").exists():
        return f"pipx inject sslsniff {packages}"
    if (prefix / "bin" / "pip").exists():
        return f"{prefix / 'bin' / 'pip'} install {packages}"
    return f"uv pip install --python {prefix} {packages}"
