"""Compile the BPF object. A hatchling build hook, and a script for ``make``.

The compiler is the one in the ``ziglang`` package, so that building needs no
system compiler and no kernel headers.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
OBJECT = HERE / "sslsniff.bpf.o"
SOURCE = HERE / "sslsniff.bpf.c"

# -mcpu=v3 needs kernel 5.1. ziglang turns the sanitizer and the stack protector on by default;
# BPF has no runtime for them.
FLAGS = (
    *("-target", "bpfel-freestanding", "-mcpu=v3", "-O2", "-g", "-Wall", "-Wextra", "-Werror"),
    *("-fno-sanitize=undefined", "-fno-stack-protector", "-fno-asynchronous-unwind-tables"),
)


def compile_object() -> Path:
    """Compile ``sslsniff.bpf.c`` beside itself; return the object's path.

    Raises ``subprocess.CalledProcessError`` where the compiler fails.
    """
    command = [sys.executable, "-m", "ziglang", "cc", *FLAGS, "-c", str(SOURCE), "-o", str(OBJECT)]
    subprocess.run(command, check=True)
    return OBJECT


if __name__ == "__main__":
    compile_object()
else:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface

    class ObjectHook(BuildHookInterface[Any]):
        """Put the object into the wheel, and say that the wheel is for one machine kind."""

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            """Compile; called by hatchling before it collects files."""
            if self.target_name == "wheel":
                compile_object()
                build_data["pure_python"] = False
                build_data["tag"] = "py3-none-linux_x86_64"
