"""Takes from a worker all that it does not need: rights, memory, time, system calls."""

import resource

from sslsniff.kernel import privileges, resource_limits, seccomp


def confine(parent: int, cpu_s: int, memory_bytes: int, open_files: int) -> None:
    """Limit this process for good; it has no capabilities, and has imported all that it needs.

    ``parent``: it ends with that process. ``cpu_s``: seconds of CPU in all; 0: no limit here.
    ``memory_bytes``: of address space, beside what it has now. Raises ``OSError``.
    """
    privileges.end_with(parent)
    most_of = {
        resource.RLIMIT_AS: resource_limits.address_space() + memory_bytes,
        resource.RLIMIT_NOFILE: open_files,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_CORE: 0,
    }
    for kind, most in most_of.items():
        resource_limits.lower(kind, most, most)
    if cpu_s:
        resource_limits.end_after(cpu_s)
    seccomp.allow_only_computing()
