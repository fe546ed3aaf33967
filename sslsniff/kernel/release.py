"""What follows from the running kernel's version, where nothing can be tried out."""

import os
import re

BPF_F_NO_PREALLOC = 1  # include/uapi/linux/bpf.h


def version() -> tuple[int, int]:
    """Return the running kernel's major and minor version."""
    major, minor = re.findall(r"\d+", os.uname().release)[:2]
    return int(major), int(minor)


def has_socket_tracepoints() -> bool:
    """Say whether tracepoints tell of socket calls, since 6.3: then kprobes need not.

    include/trace/events/sock.h, ``sock_send_length`` and ``sock_recv_length``.
    """
    return version() >= (6, 3)


def hash_map_flags() -> int:
    """Return the flags of hash maps: they get their memory as they fill, since 6.1.

    Before, a program that allocates memory can deadlock, and the kernel logs a warning
    (kernel/bpf/verifier.c of 5.10, ``check_map_prog_compatibility``).
    """
    return BPF_F_NO_PREALLOC if version() >= (6, 1) else 0
