"""Uprobe multi links (kernel 6.6): one link for all places of a program in a file.

To remove a perf event takes 0.1 s: it waits for a grace period of the kernel under a lock that all
perf events share. A link waits once for all of its places, and links wait in parallel. libbpf 1.1
(Debian 12) has no function for such links, so this module makes the system call itself.

The ``struct``s are those of ``union bpf_attr``, include/uapi/linux/bpf.h.
"""

import ctypes
import errno
import os
import struct
from collections.abc import Sequence

BPF_TRACE_UPROBE_MULTI = 48
"""The ``expected_attach_type`` of programs for such links, set before they are loaded."""

_SYSCALL_BPF = 321  # x86-64
_PROG_LOAD = 5
_LINK_CREATE = 28
_TYPE_KPROBE = 2
_FLAG_RETURN = 1
_LOAD = struct.Struct("<IIQQIIQII16sII")
_LINK = struct.Struct("<IIII4QIII4x")
_DO_NOTHING = struct.pack("<BBhi", 0xB7, 0, 0, 0) + struct.pack("<BBhi", 0x95, 0, 0, 0)


def is_supported() -> bool:
    """Say whether the kernel has such links and this process may make them."""
    try:
        program = load_empty()
    except OSError:
        return False
    try:
        os.close(link(program, "/", [0], is_return=False, cookies=[0]))
    except OSError as error:
        return error.errno == errno.EBADF  # it has such links, but refuses to probe a folder
    finally:
        os.close(program)
    return False


def load_empty() -> int:
    """Return a program for such links that does nothing. Raises ``OSError``."""
    code, licence = ctypes.create_string_buffer(_DO_NOTHING), ctypes.create_string_buffer(b"GPL")
    addresses = ctypes.addressof(code), ctypes.addressof(licence)
    count = len(_DO_NOTHING) // 8
    attributes = _LOAD.pack(
        _TYPE_KPROBE, count, *addresses, 0, 0, 0, 0, 0, b"", 0, BPF_TRACE_UPROBE_MULTI
    )
    return _bpf(_PROG_LOAD, attributes)


def link(
    program: int,
    path: str,
    offsets: Sequence[int],
    *,
    is_return: bool,
    cookies: Sequence[int],
    semaphores: Sequence[int] = (),
) -> int:
    """Attach a program to all ``offsets`` in a file; return the link: closing it detaches.

    At each offset, the program gets the cookie with the same index. ``semaphores``: see ``Loader``.
    Raises ``OSError``.
    """
    count = len(offsets)
    name = ctypes.create_string_buffer(os.fsencode(path))
    places = (ctypes.c_uint64 * count)(*offsets)
    numbers = (ctypes.c_uint64 * count)(*cookies)
    counters = (ctypes.c_uint64 * count)(*semaphores)
    addresses = [ctypes.addressof(each) for each in (name, places, counters, numbers)]
    flags = _FLAG_RETURN if is_return else 0
    attributes = _LINK.pack(program, 0, BPF_TRACE_UPROBE_MULTI, 0, *addresses, count, flags, 0)
    return _bpf(_LINK_CREATE, attributes)


def _bpf(command: int, attributes: bytes) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    result = int(libc.syscall(_SYSCALL_BPF, command, attributes, len(attributes)))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
