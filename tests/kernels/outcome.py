"""Runs one case of the matrix, and judges what came of it."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.kernels import guest
from tests.kernels.matrix import Case
from tests.live.functions.tracing import build, build_name
from tests.workload import debian

_COMPILED = debian.CACHE / "kernels/compiled"
_COMMAND = """
.venv/bin/sslsniff doctor > /mnt/doctor
{plan}
env PYTHONDONTWRITEBYTECODE=1 BCC_KERNEL_SOURCE={headers} \
    SSLSNIFF_PATIENCE_S={patience_s} SSLSNIFF_LOADER={loader} SSLSNIFF_COMPILED={compiled} \
    .venv/bin/pytest -p no:cacheprovider -p no:hypothesispytest --junitxml=/mnt/junit.xml {tests}
"""
# To plan probes for OpenSSL takes 5 s in a guest: longer than a start waits. Plans are kept.
_PLAN = """.venv/bin/python -c '
import os, ssl, subprocess
subprocess.run([".venv/bin/sslsniff", "list", "--pid", str(os.getpid())], check=True)
' > /mnt/list"""
# What a kernel logs when something is wrong with it, or was done to it.
_ALARM = re.compile(r"^.*\b(?:WARNING|BUG|Oops|Call Trace|detected stalls)\b.*", re.MULTILINE)


class Outcome(NamedTuple):
    """What a case gave; good where there are no ``complaints``."""

    case: Case
    release: str
    addresses: str
    passed: int
    tests: int
    boot_s: float
    total_s: float
    complaints: tuple[str, ...]

    def row(self) -> str:
        """Return its row in the table of docs/kernels.md."""
        cells = (
            self.release,
            self.case.suite,
            self.case.loader,
            self.addresses,
            f"{self.passed} of {self.tests}",
            f"{self.boot_s:.0f} s",
            f"{self.total_s:.0f} s",
        )
        return f"| {' | '.join(cells)} |"


def outcome(case: Case) -> Outcome:
    """Run a case; raises ``OSError`` or ``subprocess.SubprocessError`` without a kernel."""
    kernel = guest.fetch(case.suite)
    headers = guest.fetch_headers(case.suite, kernel) if case.loader == "bcc" else ""
    for source, flags in case.programs:
        _compile(source, flags)
    results = debian.CACHE / "kernels" / f"{case.suite}-{case.loader}"
    command = _COMMAND.format(
        headers=headers,
        loader=case.loader,
        patience_s=case.patience_s,
        plan=_PLAN,
        compiled=_COMPILED,
        tests=" ".join(case.tests),
    )
    threads = case.emulator_threads
    ran = guest.run(kernel, command, results, case.guest_s, threads=threads)
    report = results / "junit.xml"
    cases = list(ET.parse(report).iter("testcase")) if report.exists() else []
    failed = [each for each in cases if any(child.tag != "properties" for child in each)]
    addresses = _addresses(results / "doctor")
    return Outcome(
        case,
        kernel.release,
        addresses,
        len(cases) - len(failed),
        len(cases),
        ran.boot_s,
        ran.total_s,
        tuple(_complaints(case, kernel, ran, addresses, failed, results)),
    )


def _compile(source: str, flags: tuple[str, ...]) -> None:
    """Compile a program on this machine, for the guest."""
    _COMPILED.mkdir(parents=True, exist_ok=True)
    build(source, _COMPILED, *flags).rename(_COMPILED / build_name(source, flags))


def _addresses(report: Path) -> str:
    """Return the first word of what ``sslsniff doctor`` says of addresses."""
    said = re.search(r"\baddresses +(\w+)", report.read_text() if report.exists() else "")
    return said[1] if said else "unknown"


def _complaints(
    case: Case,
    kernel: guest.Kernel,
    ran: guest.Run,
    addresses: str,
    failed: list[ET.Element],
    results: Path,
) -> Iterator[str]:
    if not kernel.release.startswith(case.series):
        yield f"Debian {case.suite} has moved on to {kernel.release}: give it a row of its own"
    if addresses != case.addresses:
        yield f"addresses come by {addresses}, not by {case.addresses}"
    for each in failed:
        yield f"failed: {each.get('classname')}::{each.get('name')}"
    if ran.code is None:
        yield f"the guest did not come to an end within {case.guest_s} s"
    elif ran.code and not failed:
        yield f"pytest ended with {ran.code}"
    for line in _ALARM.findall(ran.dmesg):
        yield f"the kernel says: {line}"
    if ran.code != 0:
        yield f"see {results}/output and console"
