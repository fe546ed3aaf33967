"""Make what a wheel has beside Python: the BPF object, libraries in C, the manual page.

A hatchling build hook, and a script for ``make``. The compiler is the one in the ``ziglang``
package, so that building needs no system compiler and no kernel headers.
"""

import platform
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent

# ziglang turns the sanitizer and the stack protector on by default; BPF has no runtime for them.
_FLAGS = (
    *("-O2", "-Wall", "-Wextra", "-Werror"),
    *("-fno-sanitize=undefined", "-fno-stack-protector", "-fno-asynchronous-unwind-tables"),
)
_BPF = ("-target", "bpfel-freestanding", "-mcpu=v3", "-g", "-c")  # v3 needs kernel 5.1
_LIBRARY = ("-target", f"{platform.machine()}-linux-gnu.2.28", "-shared", "-fPIC", "-g0", "-Ibpf")

# For the glibc of old distributions, and for musl, which has all that it calls.
_PRELOAD = (
    *("-target", f"{platform.machine()}-linux-gnu.2.17", "-shared", "-fPIC", "-g0", "-Ibpf"),
    *(
        "-D_GNU_SOURCE",
        "-fvisibility=hidden",
        "-ftls-model=initial-exec",
        "-fasynchronous-unwind-tables",
    ),
)

# The other programs that this processor runs: those of 32 bits.
_OTHER = {"x86_64": "x86-linux-gnu.2.17", "aarch64": "arm-linux-gnueabihf.2.17"}
_NOTHING = ("-target", _OTHER[platform.machine()], "-shared", "-nostdlib", "-s")

OUTPUTS = {
    "bpf/sslsniff.bpf.o": (*_BPF, "bpf/sslsniff.bpf.c"),
    "sslsniff/files/libpacking.so": (*_LIBRARY, "sslsniff/files/packing.c"),
    "sslsniff/kernel/memory/libskipping.so": (*_LIBRARY, "sslsniff/kernel/memory/skipping.c"),
    "sslsniff/kernel/memory/librings.so": (*_LIBRARY, "sslsniff/kernel/memory/rings.c"),
    "sslsniff/preload/libpreload.so": (*_PRELOAD, "preload/preload.c"),
    "sslsniff/preload/libnothing.so": (*_NOTHING, "preload/nothing.c"),
    "sslsniff/functions/dwarf/libscanner.so": (
        *_LIBRARY,
        "sslsniff/functions/dwarf/scanner.c",
        "sslsniff/functions/dwarf/lines.c",
    ),
    "sslsniff/machine_code/stripped/libdistances.so": (
        *_LIBRARY,
        "sslsniff/machine_code/stripped/distances.c",
    ),
}


DOCUMENTS = ROOT / "build"
"""Where the manual page and completions are put; pyproject.toml says what becomes of them."""


def write_documents() -> None:
    """Write the manual page and the shells' completions, from the parsers of the command line.

    The pages of ``docs/`` come along, and those of libraries, each under its library's name.
    """
    sys.path.insert(0, str(ROOT))
    from sslsniff.cli.options import manual

    pages = {page.name: page for page in (*ROOT.glob("docs/*.md"), ROOT / "CHANGELOG.md")}
    pages |= {
        f"{page.parent.name}.md": page for page in ROOT.glob("sslsniff/libraries/*/README.md")
    }
    texts = {f"share/doc/sslsniff/{name}": page.read_text("utf-8") for name, page in pages.items()}
    for name, text in (manual.files() | texts).items():
        path = DOCUMENTS / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


def compile_all() -> None:
    """Compile those of ``OUTPUTS`` that are older than what they are made of.

    Raises ``CalledProcessError`` where the compiler fails.
    """
    for output, flags in OUTPUTS.items():
        if _is_new(ROOT / output, flags):
            continue
        command = [sys.executable, "-m", "ziglang", "cc", *_FLAGS, *flags, "-o", output]
        subprocess.run(command, check=True, cwd=ROOT)


def _is_new(output: Path, flags: tuple[str, ...]) -> bool:
    made_ns = output.stat().st_mtime_ns if output.exists() else 0
    sources = {ROOT / each for each in flags if each.endswith(".c")}
    found = {Path(__file__), *sources}
    while sources:
        included = {each for source in sources for each in _included(source)}
        sources = included - found
        found |= sources
    return all(each.stat().st_mtime_ns < made_ns for each in found)


def _included(source: Path) -> list[Path]:
    """Return the headers of this project that a source includes."""
    folders = (source.parent, ROOT / "bpf", ROOT / "preload")
    names = re.findall(r'^#include "(.+)"$', source.read_text("utf-8"), re.MULTILINE)
    paths = ([folder / name for folder in folders] for name in names)
    return [next(filter(Path.exists, each)) for each in paths]


if __name__ == "__main__":
    compile_all()
else:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface

    class CompileHook(BuildHookInterface[Any]):
        """Put what is compiled into the wheel, and say that the wheel is for one machine kind."""

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            """Compile; called by hatchling before it collects files."""
            if self.target_name == "wheel":
                compile_all()
                write_documents()
                build_data["pure_python"] = False
                build_data["tag"] = f"py3-none-manylinux_2_28_{platform.machine()}"
