"""The compiler that builds sslsniff: of the package ``ziglang``, in an environment of its own."""

from pathlib import Path

BUILD_PYTHON = Path(__file__).parents[2] / ".cache/build/bin/python"
"""What ``make`` builds with."""

ZIG = (str(BUILD_PYTHON), "-m", "ziglang")
"""Its first argument is ``cc``, ``c++``, ``ld.lld`` or ``build-exe``."""
