"""The capabilities that sslsniff needs; it drops all others (capabilities(7)).

Root is not needed: a capture works with the four capabilities of ``NEEDED``, tested on Linux 6.18.
It keeps them while it runs, because it opens and probes files that processes map later. Some
kernels also demand CAP_SYS_ADMIN (``perf_needs_admin``). It keeps those of ``USEFUL``, too, but
works without them.
"""

import contextlib
import ctypes
import errno
import os
import re
import signal
from collections.abc import Iterable
from pathlib import Path

from sslsniff.core.errors import PrivilegeError
from sslsniff.kernel import perf_event

NEEDED = {  # include/uapi/linux/capability.h
    "CAP_BPF": 39,  # loads programs, makes and reads maps
    "CAP_PERFMON": 38,  # attaches uprobes and tracepoints, reads the memory of processes in them
    "CAP_SYS_PTRACE": 19,  # looks into /proc/PID: what it maps, and its files as it sees them
    "CAP_DAC_READ_SEARCH": 2,  # opens libraries that not everyone may read
}
USEFUL = {
    "CAP_CHECKPOINT_RESTORE": 40,  # follows /proc/PID/map_files: to deleted libraries (Linux 5.9)
}
_SYS_ADMIN = 21
_ADMIN = "CAP_SYS_ADMIN"
_IMPLIED = ("CAP_BPF", "CAP_PERFMON")  # by CAP_SYS_ADMIN (bpf_capable, perfmon_capable)

_PR_SET_PDEATHSIG = 1
_PR_SET_KEEPCAPS, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = 8, 24, 38, 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_VERSION_3 = 0x20080522
_NOBODY = 65534  # the overflow user id: kernel/sys.c, DEFAULT_OVERFLOWUID

_AS_ROOT = "run it as root, or see sslsniff doctor"
_FORBIDDEN = "something else than capabilities forbids it, such as a seccomp filter or lockdown"

_HIGHEST_ID = 2**32 - 2
"""Ids of users and groups have 32 bits; the highest, -1, means "no change" to setresuid(2)."""
_SHOWN_CHARACTERS = 20

_libc = ctypes.CDLL(None, use_errno=True)


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _CapabilityData(ctypes.Structure):
    _fields_ = (
        ("effective", ctypes.c_uint32),
        ("permitted", ctypes.c_uint32),
        ("inheritable", ctypes.c_uint32),
    )


def missing() -> list[str]:
    """Return the names of the capabilities that are needed and not in effect."""
    effective = _capabilities("Eff")
    has_admin = effective >> _SYS_ADMIN & 1
    implied = _IMPLIED if has_admin else ()
    absent = [name for name, bit in NEEDED.items() if not effective >> bit & 1]
    names = [name for name in absent if name not in implied]
    # Without CAP_PERFMON the kernel refuses anyway: that says nothing about CAP_SYS_ADMIN.
    if not has_admin and "CAP_PERFMON" not in names and perf_needs_admin():
        names.append(_ADMIN)
    return names


def perf_needs_admin() -> bool:
    """Say whether this kernel refuses perf_event_open(2) to a process with only ``NEEDED``.

    Kernels of Debian and Ubuntu do so at levels of ``kernel.perf_event_paranoid`` that mainline
    does not have: there CAP_PERFMON does not count. This function tries it.
    """
    before = _capabilities("Eff"), _capabilities("Prm"), _capabilities("Inh")
    _set_capabilities(before[0] & _mask(NEEDED), *before[1:])
    try:
        os.close(perf_event.open_dummy(pid=0, cpu=-1))
    except OSError as error:
        return error.errno in (errno.EACCES, errno.EPERM)
    finally:
        _set_capabilities(*before)
    return False


def require() -> None:
    """Raise ``PrivilegeError`` if a capability is missing, or sudo's variables are no ids."""
    caller()
    names = missing()
    if names:
        raise PrivilegeError(
            f"user {os.geteuid()} runs sslsniff without {', '.join(names)}",
            remedy(names),
        )


def remedy(names: Iterable[str], unless_root: str = _AS_ROOT) -> str:
    """Return what to do where capabilities are missing: root itself may lack them.

    ``unless_root``: what a user other than root is to do.
    """
    if os.geteuid():
        return unless_root
    options = " ".join(f"--cap-add {name.removeprefix('CAP_')}" for name in names)
    if not options:
        return _FORBIDDEN
    return f"root has not all rights here, as in a container: add them (docker run {options})"


def drop(*, opens_perf_events: bool) -> None:
    """Drop all capabilities but ``NEEDED`` and ``USEFUL``, for good, and become sudo's caller.

    Programs that this process starts get none. CAP_SYS_ADMIN stays in two cases: if it stands for
    missing ones of ``NEEDED``, and if the process ``opens_perf_events`` later and the kernel
    demands it for that. Other threads keep their capabilities: there should be none. Raises
    ``PrivilegeError``.
    """
    effective = _capabilities("Eff")
    kept = effective & (_mask(NEEDED) | _mask(USEFUL))
    is_implied = any(not effective >> NEEDED[name] & 1 for name in _IMPLIED)
    if is_implied or (opens_perf_events and perf_needs_admin()):
        kept |= effective & 1 << _SYS_ADMIN
    _drop_all_but(kept)


def _drop_all_but(kept: int) -> None:
    """Keep only the capabilities with a bit in ``kept``, and become sudo's caller."""
    for bit in range(64):
        # The call fails without CAP_SETPCAP, and for bits above the last capability.
        if not kept >> bit & 1:
            _libc.prctl(_PR_CAPBSET_DROP, bit, 0, 0, 0)
    owner = caller()
    if owner is not None:
        _become(*owner)
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    _set_capabilities(kept, kept, 0)


def drop_all(*, but: Iterable[str] = ()) -> None:
    """Drop all capabilities ``but`` some of ``NEEDED`` for good, and become sudo's caller.

    Raises ``PrivilegeError``.
    """
    _drop_all_but(_capabilities("Eff") & sum(1 << NEEDED[name] for name in but))


def drop_all_and_user() -> None:
    """Drop all capabilities for good; as root, also become the user that owns nothing.

    Raises ``PrivilegeError``.
    """
    for bit in range(64):  # fails as in _drop_all_but
        _libc.prctl(_PR_CAPBSET_DROP, bit, 0, 0, 0)
    # Root stays root without the right to change users, or if its namespace has no such user.
    with contextlib.suppress(OSError):
        os.setgroups([])
        os.setresgid(_NOBODY, _NOBODY, _NOBODY)
        os.setresuid(_NOBODY, _NOBODY, _NOBODY)
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    _set_capabilities(0, 0, 0)


def end_with(parent: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Let the kernel send this process a signal when ``parent``, which started it, ends.

    Call it after ``drop_all`` or ``drop_all_and_user``: a change of capabilities or user undoes it
    (``commit_creds`` in kernel/cred.c).
    """
    _prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:  # it has ended already
        os.kill(os.getpid(), number)


def caller() -> tuple[int, int] | None:
    """Return the ids of the user and group who called sudo; None: without sudo, or not as root.

    Raises ``PrivilegeError`` if the variables that sudo sets are no ids, or if one is missing:
    else this process would stay root, or become another user.
    """
    if os.geteuid() != 0 or not {"SUDO_UID", "SUDO_GID"} & os.environ.keys():
        return None
    return _id_from("SUDO_UID"), _id_from("SUDO_GID")


def _id_from(variable: str) -> int:
    """Return the user or group id in an environment variable; raises ``PrivilegeError``."""
    text = os.environ.get(variable)
    if text is not None and re.fullmatch("[0-9]{1,10}", text) and int(text) <= _HIGHEST_ID:
        return int(text)
    fact = "is not set" if text is None else f"is {text[:_SHOWN_CHARACTERS]!a}, not an id"
    raise PrivilegeError(
        f"{variable} {fact}", "run sslsniff by sudo, or unset SUDO_UID and SUDO_GID"
    )


def _become(user: int, group: int) -> None:
    _prctl(_PR_SET_KEEPCAPS, 1)
    try:
        os.setgroups([])
        os.setresgid(group, group, group)
        os.setresuid(user, user, user)
    except OSError as error:
        names = ("CAP_SETUID", "CAP_SETGID")
        raise _refused(f"becoming user {user}", error.errno, names) from error


def _capabilities(kind: str) -> int:
    """Return a set of capabilities of this thread, as bits: ``Eff``, ``Prm`` or ``Inh``."""
    status = Path("/proc/thread-self/status").read_text(encoding="ascii", errors="replace")
    found = re.search(rf"^Cap{kind}:\s*([0-9a-f]+)", status, re.MULTILINE)
    return int(found[1], 16) if found else 0


def _set_capabilities(*sets: int) -> None:
    """Set this thread's effective, permitted and inheritable capabilities, as bits."""
    words = (_CapabilityData * 2)(
        *(_CapabilityData(*(each >> low & 0xFFFFFFFF for each in sets)) for low in (0, 32))
    )
    if _libc.capset(ctypes.byref(_Header(_VERSION_3, 0)), words):
        raise _refused("capset")


def _mask(capabilities: dict[str, int]) -> int:
    return sum(1 << bit for bit in capabilities.values())


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, value, 0, 0, 0):
        raise _refused(f"prctl {option}")


def _refused(call: str, number: int | None = None, names: Iterable[str] = ()) -> PrivilegeError:
    """Return the error of a call that needs the capabilities ``names``; mostly it needs none."""
    reason = os.strerror(number or ctypes.get_errno() or errno.EPERM)
    fact = f"cannot drop privileges ({call}: {reason})"
    return PrivilegeError(fact, remedy(names, _FORBIDDEN))
