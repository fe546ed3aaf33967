"""Programs in C and C++ by clang and libc++, from the ``ziglang`` package."""

import subprocess
from pathlib import Path

from tests.workload.compiler import BUILD_PYTHON, ZIG

_HERE = Path(__file__).parent
_FLAGS = ("-w", "-c", "-fno-sanitize=all", "-fno-stack-protector", "-mcpu=x86_64")


def compile_by_clang(source: Path, program: Path, *flags: str) -> None:
    """Compile a source file and link it; the linker is that of gcc, which is faster at first."""
    objects = [program.with_suffix(".o")]
    _compile(source, objects[0], *flags)
    if source.suffix == ".cpp":
        objects.append(program.with_name("libcxx_parts.o"))
        library = _library()
        folders = (f"-I{library}", f"-I{library}/src", f"-I{library.parent}/libcxxabi/include")
        own = ("-std=c++23", "-D_LIBCPP_BUILDING_LIBRARY", *folders)
        _compile(_HERE / "libcxx_parts.cpp", objects[1], *own)
    subprocess.run(["g++", *objects, "-o", program], check=True)


def _compile(source: Path, to: Path, *flags: str) -> None:
    language = "c++" if source.suffix == ".cpp" else "cc"
    command: list[str | Path] = [*ZIG, language, *_FLAGS, *flags]
    subprocess.run([*command, source, "-o", to], check=True)


def _library() -> Path:
    """Return the folder with the sources of libc++."""
    [found] = BUILD_PYTHON.parents[1].glob("lib/python3*/site-packages/ziglang/lib/libcxx")
    return found
