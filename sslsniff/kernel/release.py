"""Says what the running kernel has, by its version, where a trial is not possible."""

import os
import re

BPF_F_NO_PREALLOC = 1  # include/uapi/linux/bpf.h


# On x86-64 a return probe's trampoline is a system call since 6.11 (uretprobe, number 335). A
# seccomp filter that does not know it kills the process; since 6.14 filters do not see it
# ("seccomp: passthrough uretprobe systemcall without filtering"), which
# stable 6.12.14 and 6.13.3 have too, and 6.11 never got.
_FIRST_WITH_SYSTEM_CALL = (6, 11)
_FIRST_UNSEEN_BY_FILTERS = (6, 14)
_FIXED_IN_STABLE = {(6, 12): 14, (6, 13): 3}


def version() -> tuple[int, int]:
    """Return the running kernel's major and minor version."""
    major, minor, _ = _numbers(os.uname().release)
    return major, minor


def _numbers(release: str) -> tuple[int, int, int]:
    """Return the first three numbers of a release as of ``uname -r``; 0 for each missing one."""
    major, minor, patch = (*map(int, re.findall(r"\d+", release)), 0, 0, 0)[:3]
    return major, minor, patch


def has_safe_return_probes(release: str | None = None) -> bool:
    """Say whether return probes are harmless on a kernel: no seccomp filter kills a process.

    ``release`` is that of ``uname -r``; None: the running kernel's. Distributions number their
    patches differently: a kernel whose third number is unknown counts as not fixed.
    """
    major, minor, patch = _numbers(release or os.uname().release)
    series = (major, minor)
    if not _FIRST_WITH_SYSTEM_CALL <= series < _FIRST_UNSEEN_BY_FILTERS:
        return True
    fixed = _FIXED_IN_STABLE.get(series)
    return fixed is not None and patch >= fixed


def has_attach_cookies() -> bool:
    """Say whether a uprobe can give its program a cookie: since 5.15 (bpf_get_attach_cookie).

    Older kernels of some distributions have cookies, too; they are not used there.
    """
    return version() >= (5, 15)


def has_waiting_uprobes() -> bool:
    """Say whether a uprobe's program can wait for memory: since 6.0; with all maps since 6.1.

    "bpf: Remove prealloc-only restriction for sleepable bpf programs" is in 6.1.
    """
    return version() >= (6, 1)


def has_socket_tracepoints() -> bool:
    """Say whether the kernel has tracepoints for socket calls: since 6.3. Else kprobes are used.

    include/trace/events/sock.h, ``sock_send_length`` and ``sock_recv_length``.
    """
    return version() >= (6, 3)


def counts_maps_as_locked() -> bool:
    """Say whether the memory of maps counts towards RLIMIT_MEMLOCK: before 5.11.

    libbpf raises the limit by itself, if it has CAP_SYS_RESOURCE.
    """
    return version() < (5, 11)


def hash_map_flags() -> int:
    """Return the flags of hash maps: since 6.1, their memory is allocated as they fill.

    In older kernels, a program that allocates memory can deadlock, and the kernel logs a warning
    (kernel/bpf/verifier.c of 5.10, ``check_map_prog_compatibility``).
    """
    return BPF_F_NO_PREALLOC if version() >= (6, 1) else 0
