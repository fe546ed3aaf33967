"""perf_event_open(2), for a dummy event: its ring buffer reports mappings."""

import ctypes
import os
import struct

_SYSCALL = 298  # x86-64
_TYPE_SOFTWARE, _COUNT_SW_DUMMY = 1, 9
_FLAG_CLOEXEC = 8
_ATTRIBUTES = struct.Struct("<IIQ24xQI76x")  # struct perf_event_attr, PERF_ATTR_SIZE_VER7


def open_dummy(pid: int, cpu: int, bits: int = 0, wakeup: int = 0) -> int:
    """Open a dummy event (PERF_COUNT_SW_DUMMY), and return its file descriptor.

    ``pid``: 0 is this process, -1 any process.
    ``cpu``: -1 is any CPU.
    ``bits``: flags of ``struct perf_event_attr`` (include/uapi/linux/perf_event.h).
    ``wakeup``: its field ``wakeup_events`` or ``wakeup_watermark``.

    Raises ``OSError``.
    """
    attributes = _ATTRIBUTES.pack(_TYPE_SOFTWARE, _ATTRIBUTES.size, _COUNT_SW_DUMMY, bits, wakeup)
    libc = ctypes.CDLL(None, use_errno=True)
    fd = int(libc.syscall(_SYSCALL, attributes, pid, cpu, -1, _FLAG_CLOEXEC))
    if fd < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return fd
