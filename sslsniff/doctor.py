"""``sslsniff doctor``: what this kernel and user can do, and the remedy for each no."""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from sslsniff.columns import print_table
from sslsniff.errors import KernelError, SslsniffError
from sslsniff.kernel import release, sockets, uprobe_multi
from sslsniff.kernel.bcc_loader import import_bcc
from sslsniff.kernel.libbpf import LibbpfLoader, open_library
from sslsniff.kernel.loader import Loader
from sslsniff.options import SMALLEST_RING_BYTES


class Finding(NamedTuple):
    """One answer; ``needed`` tells whether nothing can be captured without."""

    what: str
    ok: bool
    fact: str
    remedy: str = ""
    needed: bool = True


_CAPABILITIES = {  # include/uapi/linux/capability.h
    "CAP_BPF": 39,
    "CAP_PERFMON": 38,
    "CAP_SYS_PTRACE": 19,
    "CAP_DAC_READ_SEARCH": 2,
}
_CAP_SYS_ADMIN = 21


def find() -> Iterator[Finding]:
    """Look at everything that capture depends on."""
    yield from _kernel()
    yield from _privileges()
    yield _links()
    yield from _loaders()
    yield from _trial()


def _kernel() -> Iterator[Finding]:
    version = release.version()
    yield Finding(
        "kernel",
        version >= (5, 8),
        os.uname().release,
        "sslsniff needs 5.8 or newer (BPF ring buffer)",
    )
    yield Finding(
        "uprobes",
        Path("/sys/bus/event_source/devices/uprobe").exists(),
        "perf event source 'uprobe'",
        "the kernel needs CONFIG_UPROBE_EVENTS",
    )
    yield Finding(
        "BTF",
        Path("/sys/kernel/btf/vmlinux").exists(),
        "/sys/kernel/btf/vmlinux",
        "the kernel needs CONFIG_DEBUG_INFO_BTF; without it use --loader bcc",
        needed=False,
    )


def _links() -> Finding:
    """Find out how uprobes are attached: it decides how long it takes to end."""
    return Finding(
        "multi links",
        uprobe_multi.is_supported(),
        "probes go away together, within 0.1 s",
        "kernel 6.6 or newer, as root; without it probes go away one by one, 0.1 s each",
        needed=False,
    )


def _privileges() -> Iterator[Finding]:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    match = re.search(r"^CapEff:\s*([0-9a-f]+)", status, re.MULTILINE)
    held = int(match[1], 16) if match else 0
    missing = [name for name, bit in _CAPABILITIES.items() if not held >> bit & 1]
    if held >> _CAP_SYS_ADMIN & 1:
        missing = []
    yield Finding(
        "privileges",
        not missing,
        f"user id {os.geteuid()}" + (f", without {', '.join(missing)}" if missing else ""),
        "run as root, or with these capabilities",
    )


def _loaders() -> Iterator[Finding]:
    co_re = _attempt(open_library)
    bcc = _attempt(import_bcc)
    for what, failure, other in (("libbpf", co_re, bcc), ("bcc", bcc, co_re)):
        yield Finding(
            what,
            failure is None,
            failure.fact if failure else "installed",
            failure.remedy if failure else "",
            needed=other is not None,
        )


def _trial() -> Iterator[Finding]:
    """Load the programs and attach those that need no target; nothing is watched."""
    try:
        loader = LibbpfLoader(SMALLEST_RING_BYTES)
    except SslsniffError as error:
        yield Finding("programs", False, error.fact, error.remedy)
        return
    try:
        yield Finding("programs", True, "loaded and verified by the kernel")
        yield Finding(
            "cookies",
            loader.has_cookies,
            "role, TLS version, ALPN and cipher of connections",
            "kernel 5.15 or newer; without it only while one library file is watched",
            needed=False,
        )
        yield _addresses(loader)
    finally:
        loader.close()


def _addresses(loader: Loader) -> Finding:
    """Find out how the addresses of connections are learned."""
    try:
        way, detaches = sockets.attach(loader)
    except KernelError as error:
        return Finding("addresses", False, error.fact, error.remedy, needed=False)
    for detach in detaches:
        detach()
    return Finding("addresses", True, way)


def _attempt(action: Callable[[], object]) -> SslsniffError | None:
    try:
        action()
    except SslsniffError as error:
        return error
    return None


def print_report() -> int:
    """Print the findings; return 0 where sslsniff can capture, else 1."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in ("", "what", "found", "remedy"):
        table.add_column(heading)
    findings = list(find())
    for finding in findings:
        mark = (
            "[green]yes[/]" if finding.ok else "[red]no[/]" if finding.needed else "[yellow]no[/]"
        )
        remedy = "" if finding.ok else finding.remedy
        table.add_row(mark, finding.what, escape(finding.fact), escape(remedy))
    print_table(table)
    able = all(finding.ok for finding in findings if finding.needed)
    print("sslsniff can capture here." if able else "sslsniff cannot capture here.")
    return 0 if able else 1
