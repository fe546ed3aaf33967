"""The capabilities that sslsniff needs, and letting go of all others (capabilities(7)).

Root is not asked for: a capture works with the four of ``NEEDED``, measured on Linux 6.18.
They are kept while it runs, as files that come into use later must be opened and probed.
CAP_SYS_ADMIN is the fifth where the kernel demands it (``perf_needs_admin``). What is ``USEFUL``
is kept, too, and never asked for.
"""

import contextlib
import ctypes
import errno
import os
import re
import signal
from pathlib import Path

from sslsniff.errors import PrivilegeError
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

_HIGHEST_ID = 2**32 - 2
"""User and group ids are unsigned 32-bit; the one above, -1, means "no change" to setresuid(2)."""
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
    held = _capabilities("Eff")
    implied = _IMPLIED if held >> _SYS_ADMIN & 1 else ()
    names = [name for name, bit in NEEDED.items() if not held >> bit & 1 and name not in implied]
    # Without CAP_PERFMON a refusal would say nothing about the other.
    if not held >> _SYS_ADMIN & 1 and "CAP_PERFMON" not in names and perf_needs_admin():
        names.append(_ADMIN)
    return names


def perf_needs_admin() -> bool:
    """Say whether this kernel refuses perf_event_open(2) to who has only what is ``NEEDED``.

    Debian's and Ubuntu's do in some releases, above the levels that mainline knows for
    ``kernel.perf_event_paranoid``: CAP_PERFMON is not asked for there. It is tried out.
    """
    held = _capabilities("Eff"), _capabilities("Prm"), _capabilities("Inh")
    _set_capabilities(held[0] & _mask(NEEDED), *held[1:])
    try:
        os.close(perf_event.open_dummy(pid=0, cpu=-1))
    except OSError as error:
        return error.errno in (errno.EACCES, errno.EPERM)
    finally:
        _set_capabilities(*held)
    return False


def require() -> None:
    """Raise ``PrivilegeError`` where a capability is missing, or sudo's caller is no user."""
    caller()
    names = missing()
    if names:
        raise PrivilegeError(
            f"user {os.geteuid()} runs sslsniff without {', '.join(names)}",
            "run it as root, or see sslsniff doctor",
        )


def drop(*, opens_perf_events: bool) -> None:
    """Keep only what is ``NEEDED`` or ``USEFUL``, for good: no program started from here gets any.

    Under sudo the process becomes its caller's. CAP_SYS_ADMIN stays where it stands for others, and
    where it is needed to open perf events, if the process ``opens_perf_events`` from here on.
    Threads that were started before keep theirs: there should be none. Raises ``PrivilegeError``.
    """
    held = _capabilities("Eff")
    kept = held & (_mask(NEEDED) | _mask(USEFUL))
    is_implied = any(not held >> NEEDED[name] & 1 for name in _IMPLIED)
    if is_implied or (opens_perf_events and perf_needs_admin()):
        kept |= held & 1 << _SYS_ADMIN
    _give_up(kept)


def _give_up(kept: int) -> None:
    """Keep only the capabilities in ``kept``, and become sudo's caller."""
    for bit in range(64):
        # Refused to who has no CAP_SETPCAP, and beyond the last capability.
        if not kept >> bit & 1:
            _libc.prctl(_PR_CAPBSET_DROP, bit, 0, 0, 0)
    owner = caller()
    if owner is not None:
        _become(*owner)
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    _set_capabilities(kept, kept, 0)


def drop_all() -> None:
    """Keep no capability, for good, as ``drop`` keeps few; raises ``PrivilegeError``."""
    _give_up(0)


def renounce() -> None:
    """Give up every right for good: all capabilities, and as root also the user.

    Raises ``PrivilegeError``.
    """
    for bit in range(64):  # refused as in _give_up
        _libc.prctl(_PR_CAPBSET_DROP, bit, 0, 0, 0)
    # Root without the right to change users, or with no such user in its namespace, stays root.
    with contextlib.suppress(OSError):
        os.setgroups([])
        os.setresgid(_NOBODY, _NOBODY, _NOBODY)
        os.setresuid(_NOBODY, _NOBODY, _NOBODY)
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    _set_capabilities(0, 0, 0)


def end_with(parent: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Let the kernel send this process a signal when ``parent``, which started it, ends.

    To be called after ``renounce``, which would undo it (``commit_creds`` in kernel/cred.c).
    """
    _prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:  # it has ended already
        os.kill(os.getpid(), number)


def caller() -> tuple[int, int] | None:
    """Return user and group id of who called sudo; None without sudo, or where this is not root.

    Raises ``PrivilegeError`` where the variables that sudo sets are no ids, or one of them is
    missing: to continue would mean to stay root, or to become somebody else.
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
        raise _refused(f"becoming user {user}", error.errno) from error


def _capabilities(kind: str) -> int:
    """Return a set of this thread: ``Eff``, ``Prm`` or ``Inh``."""
    status = Path("/proc/thread-self/status").read_text(encoding="ascii", errors="replace")
    found = re.search(rf"^Cap{kind}:\s*([0-9a-f]+)", status, re.MULTILINE)
    return int(found[1], 16) if found else 0


def _set_capabilities(*sets: int) -> None:
    """Set what is effective, permitted and inheritable in this thread."""
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


def _refused(what: str, number: int | None = None) -> PrivilegeError:
    reason = os.strerror(number or ctypes.get_errno() or errno.EPERM)
    return PrivilegeError(f"cannot drop privileges ({what}: {reason})", "run sslsniff as root")
