"""Builds programs with BoringSSL or AWS-LC linked in, with symbols and without.

Only ``ssl_lib.cc`` is compiled, and for link-time optimisation the files whose functions may be
inlined there. All other functions are empty: none of them raises an error of ``ssl_lib.cc``. So a
program takes seconds instead of minutes, but it cannot run.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
from enum import Enum
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.workload.boringssl.releases import CACHE, Release, sources
from tests.workload.compiler import ZIG

_CALLER = Path(__file__).with_name("caller.cc")
_OFFSETS = Path(__file__).with_name("offsets.cc")
_MAIN_SOURCE = "ssl_lib.cc"
_INLINED_SOURCES = (
    "handshake.cc",
    "s3_both.cc",
    "s3_lib.cc",
    "s3_pkt.cc",
    "ssl_buffer.cc",
    "tls_method.cc",
    "tls_record.cc",
)
# The crates' own builds hide exceptions and run-time types, too.
_LANGUAGE = ("-std=c++17", "-fno-exceptions", "-fno-rtti", "-w")
_DEFINED = ("-DOPENSSL_NO_ASM", "-DBORINGSSL_IMPLEMENTATION", "-DNDEBUG")
_ZIG_CACHE = CACHE / "zig"
_COMPILERS = {
    "gcc": ("g++",),
    # Zig alone keeps frame pointers.
    "clang": (*ZIG, "c++", "-target", "x86_64-linux-gnu", "-fomit-frame-pointer"),
}
_UNDEFINED = re.compile(r"(?:undefined reference to|undefined symbol:?) [`']?([\w.$@]+)")
_PROGRAMS = CACHE / "programs"
_EMPTY_FUNCTION = """
.globl "{0}"
.type "{0}", @function
.p2align {1}
"{0}": xor %eax, %eax
ret
.size "{0}", .-"{0}"
"""
_MOST_LINKS = 4  # one for the sources, the others for what optimising adds
_PATIENCE_S = 600
_locks: dict[Path, threading.Lock] = {}
_lock = threading.Lock()


class Frames(Enum):
    """Which functions have a frame description.

    NOT_MAIN: all but those of ``ssl_lib.cc``.
    """

    ALL = "all"
    NONE = "none"
    NOT_MAIN = "not BoringSSL's"


class Build(NamedTuple):
    """How a program is compiled and linked.

    ``fixed``: to a fixed address.
    ``sections``: each function in a section of its own, without those that nothing calls, as
    Bazel, Cargo and GN build.
    ``by_pointers``: the program calls the functions only through pointers in its data.
    """

    compiler: str
    level: str
    lto: bool = False
    frames: Frames = Frames.ALL
    fixed: bool = False
    sections: bool = False
    by_pointers: bool = False
    more: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        parts = (
            self.compiler,
            f"-{self.level}",
            "LTO" if self.lto else "",
            {Frames.ALL: "", Frames.NONE: "no frames", Frames.NOT_MAIN: "other frames"}[
                self.frames
            ],
            "EXEC" if self.fixed else "",
            "sections" if self.sections else "",
            "pointers" if self.by_pointers else "",
            *self.more,
        )
        return " ".join(filter(None, parts))


class Built(NamedTuple):
    """A program with its symbols, and a copy without them."""

    whole: Path
    stripped: Path


def build(release: Release, how: Build) -> Built:
    """Return the program, from the cache if it is there.

    Raises ``subprocess.CalledProcessError``, with what the compiler or linker wrote.
    """
    folder = _PROGRAMS / _recipe() / release.name / how.name.replace(" ", "_")
    built = Built(folder / "whole", folder / "stripped")
    if not built.stripped.exists():
        folder.mkdir(parents=True, exist_ok=True)
        objects = [_compiled(release, how, each) for each in _sources(release, how)]
        _link(how, objects, built.whole)
        _strip(how, built)
    return built


def remove_outdated() -> None:
    """Remove the programs that an older version of this module built."""
    for folder in _PROGRAMS.glob("*"):
        if folder.name != _recipe():
            shutil.rmtree(folder)


@cache
def offsets(release: Release) -> dict[str, int]:
    """Return where the objects of a release have their fields, by the compiler.

    The names are those of ``ObjectLayout``. Raises ``subprocess.CalledProcessError``.
    """
    folder = sources(release)
    includes = (f"-I{folder / 'include'}", f"-I{folder / 'ssl'}")
    options = (*_LANGUAGE, *_DEFINED, "-O2", "-ffunction-sections", "-Wl,--gc-sections", *includes)
    with tempfile.TemporaryDirectory() as made:
        program = str(Path(made) / "offsets")
        _run(*_COMPILERS["gcc"], *options, str(_OFFSETS), "-o", program)
        found: dict[str, int] = json.loads(_run(program).stdout)
    return found


@cache
def _recipe() -> str:
    """Return what names the way in which programs are made, as these sources have it."""
    return _digest(*(each.read_bytes() for each in (Path(__file__), _CALLER)))


def _digest(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:12]


def _sources(release: Release, how: Build) -> list[Path]:
    names = (_MAIN_SOURCE, *(_INLINED_SOURCES if how.lto else ()))
    return [*(sources(release) / "ssl" / each for each in names), _CALLER]


def _compiled(release: Release, how: Build, source: Path) -> Path:
    """Compile one file. Only the main one gets the build's own flags, so that others are shared."""
    flags = ["-O2", "-fPIE"]
    if source.name == _MAIN_SOURCE:
        flags = [f"-{how.level}", "-fno-pie" if how.fixed else "-fPIE", *how.more]
        if how.sections:
            flags += ["-ffunction-sections", "-fdata-sections"]
        if how.frames is Frames.NOT_MAIN:  # NONE: they are removed with their section
            flags += ["-fno-asynchronous-unwind-tables", "-fno-unwind-tables"]
    if how.lto:
        flags += ["-flto"]
    name = source.stem
    if source == _CALLER:
        flags += ["-DBY_POINTERS"] if how.by_pointers else []
        name += f"-{_digest(source.read_bytes())}"
    language = _digest(repr((_LANGUAGE, _DEFINED)).encode())
    folder = CACHE / release.name / f"objects-{language}" / f"{how.compiler}{''.join(flags)}"
    made = folder / f"{name}.o"
    with _lock:
        lock = _locks.setdefault(made, threading.Lock())
    with lock:
        if not made.exists():
            made.parent.mkdir(parents=True, exist_ok=True)
            include = f"-I{sources(release) / 'include'}"
            part = made.with_suffix(".part")
            options = [*_LANGUAGE, *_DEFINED, *flags, include, "-c", str(source), "-o", str(part)]
            _run(*_COMPILERS[how.compiler], *options)
            part.rename(made)
    return made


def _link(how: Build, objects: list[Path], made: Path) -> None:
    """Link, first without the functions that are empty: the linker says which are missing."""
    linker = _gnu_linker(how) if how.compiler == "gcc" else _llvm_linker(how)
    command = [*linker, *map(str, objects), "-o", str(made)]
    empty: list[str] = []
    missing: set[str] = set()
    for _ in range(_MOST_LINKS):
        done = _run(*command, *empty, may_fail=True)
        found = {*_UNDEFINED.findall(done.stderr)} - missing
        if not done.returncode or not found:
            break
        missing |= found
        empty = [_empty_functions(missing, how, made.with_name("empty.o"))]
    if done.returncode:
        raise subprocess.CalledProcessError(done.returncode, command, done.stdout, done.stderr)


def _gnu_linker(how: Build) -> list[str]:
    frames = "no-eh-frame-hdr" if how.frames is Frames.NONE else "eh-frame-hdr"
    place = ["-static", "-no-pie"] if how.fixed else ["-static-pie"]
    optimised = [f"-{how.level}", "-flto"] if how.lto else []
    options = ["-nostdlib", *place, f"-Wl,--{frames},--no-demangle", *optimised]
    return [*_COMPILERS["gcc"], *options, *(["-Wl,--gc-sections"] if how.sections else [])]


def _llvm_linker(how: Build) -> list[str]:
    frames = "no-eh-frame-hdr" if how.frames is Frames.NONE else "eh-frame-hdr"
    place = ["-static"] if how.fixed else ["-static", "-pie", "--no-dynamic-linker"]
    options = [*place, f"--{frames}", "--no-demangle", "--error-limit=0"]
    return [*ZIG, "ld.lld", *options, *(["--gc-sections"] if how.sections else [])]


def _empty_functions(names: set[str], how: Build, made: Path) -> str:
    """Assemble functions that do nothing, aligned as others; return the path of the object file."""
    source = made.with_suffix(".s")
    alignment = 0 if how.level in ("Os", "Oz") else 4
    source.write_text("".join(_EMPTY_FUNCTION.format(each, alignment) for each in sorted(names)))
    _run("gcc", "-c", str(source), "-o", str(made))
    return str(made)


def _strip(how: Build, built: Built) -> None:
    part = built.stripped.with_suffix(".part")
    frames = ["--remove-section=.eh_frame"] if how.frames is Frames.NONE else []
    _run("strip", "--strip-all", *frames, "-o", str(part), str(built.whole))
    part.rename(built.stripped)


def _run(*command: str, may_fail: bool = False) -> subprocess.CompletedProcess[str]:
    folders = {"ZIG_GLOBAL_CACHE_DIR": str(_ZIG_CACHE), "ZIG_LOCAL_CACHE_DIR": str(_ZIG_CACHE)}
    return subprocess.run(
        command,
        check=not may_fail,
        capture_output=True,
        text=True,
        env=os.environ | folders | {"LC_ALL": "C"},
        timeout=_PATIENCE_S,
    )
