"""``sslsniff doctor``: what this kernel and user can do, and the remedy for each no."""

import json
import os
import platform
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from sslsniff import __version__
from sslsniff.cli.printing import print_table
from sslsniff.core.errors import KernelError, PrivilegeError, SslsniffError
from sslsniff.kernel import privileges, release, socket_probes
from sslsniff.kernel.loaders import uprobe_multi
from sslsniff.kernel.loaders.bcc_loader import import_bcc
from sslsniff.kernel.loaders.libbpf import LibbpfLoader, open_library
from sslsniff.kernel.loaders.loader import Loader
from sslsniff.settings.values import SMALLEST_RING_BYTES

_PRIVATE_PATH = re.compile(r"(?<![\w.])/(?!(?:etc|lib\d*|proc|sys|usr)/)[^\s:,;()']+")
"""A path that may contain a user's name."""
_AS_ROOT = "run as root, or with these capabilities"
_PIPED_COLUMNS = 80  # reports are pasted into e-mails and issues


class Finding(NamedTuple):
    """One line of the report; ``needed``: nothing can be captured without it."""

    what: str
    ok: bool
    fact: str
    remedy: str = ""
    needed: bool = True


def find() -> Iterator[Finding]:
    """Check everything that a capture depends on."""
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
    """Check how uprobes are attached: that decides how long an end takes."""
    is_old = release.version() < (6, 6)
    rights = privileges.remedy(privileges.missing(), "run as root")
    remedy = "kernel 6.6 or newer" if is_old else rights
    return Finding(
        "multi links",
        uprobe_multi.is_supported(),
        "probes go away together, within 0.1 s",
        f"{remedy}; without it probes go away one by one, 0.1 s each",
        needed=False,
    )


def _privileges() -> Iterator[Finding]:
    missing = privileges.missing()
    yield Finding(
        "privileges",
        not missing,
        f"user id {os.geteuid()}" + (f", without {', '.join(missing)}" if missing else ""),
        privileges.remedy(missing, _AS_ROOT),
    )
    sudo = _attempt(privileges.caller)
    if sudo is not None:  # its fact may have a user's name
        yield Finding("sudo", False, "SUDO_UID or SUDO_GID is not an id", sudo.remedy)


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
        loader = LibbpfLoader(SMALLEST_RING_BYTES, can_hold=True, loads_all=True)
    except PrivilegeError as error:
        missing = privileges.missing()
        remedy = privileges.remedy(missing, _AS_ROOT) if missing else error.remedy
        yield Finding("programs", False, error.fact, remedy)
        return
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
        yield _holding(loader)
    finally:
        loader.close()


def _addresses(loader: Loader) -> Finding:
    """Check how the addresses of connections are found."""
    try:
        way, detaches = socket_probes.attach(loader)
    except KernelError as error:
        return Finding("addresses", False, error.fact, error.remedy, needed=False)
    for detach in detaches:
        detach()
    return Finding("addresses", True, way)


def _holding(loader: Loader) -> Finding:
    """Check how a command's mappings of files are noticed, so that it can be stopped."""
    from sslsniff.capture.holding import holds

    try:
        way, detach = holds.attach_mapping(loader)
    except KernelError as error:
        return Finding("holding", False, error.fact, error.remedy, needed=False)
    detach()
    return Finding("holding", True, way)


def _attempt(action: Callable[[], object]) -> SslsniffError | None:
    try:
        action()
    except SslsniffError as error:
        return error
    return None


def print_report(*, as_json: bool = False) -> int:
    """Print the findings; return 0 if sslsniff can capture, else 1."""
    findings = list(find())
    able = all(finding.ok for finding in findings if finding.needed)
    if as_json:
        print(json.dumps(_report(findings, able)))
    else:
        _print_table(findings)
        print("sslsniff can capture here." if able else "sslsniff cannot capture here.")
    return 0 if able else 1


def _report(findings: list[Finding], able: bool) -> dict[str, object]:
    """Return the report as JSON: without names of hosts and users, with system paths only."""
    shown = [finding._asdict() for finding in findings]
    for each in shown:
        each["fact"] = _PRIVATE_PATH.sub("(path)", each["fact"])
        each["remedy"] = None if each["ok"] else _PRIVATE_PATH.sub("(path)", each["remedy"])
    return {
        "type": "doctor",
        "sslsniff": __version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "able": able,
        "findings": shown,
    }


def _print_table(findings: list[Finding]) -> None:
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in ("", "what", "found"):
        table.add_column(heading, overflow="fold")
    for finding in findings:
        mark = (
            "[green]yes[/]" if finding.ok else "[red]no[/]" if finding.needed else "[yellow]no[/]"
        )
        remedy = "" if finding.ok else f"\nremedy: {finding.remedy}"
        table.add_row(mark, finding.what, escape(finding.fact + remedy))
    print_table(table, piped_columns=_PIPED_COLUMNS)
