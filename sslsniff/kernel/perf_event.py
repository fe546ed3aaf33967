"""perf_event_open(2): a dummy event, whose ring buffer reports mappings, and a bare uprobe."""

import ctypes
import os
import struct
from pathlib import Path

_SYSCALL = 298  # x86-64
_TYPE_SOFTWARE, _COUNT_SW_DUMMY = 1, 9
_FLAG_CLOEXEC = 8
_ATTRIBUTES = struct.Struct("<IIQ24xQI4xQQ56x")  # struct perf_event_attr, PERF_ATTR_SIZE_VER7
_UPROBE_TYPE = Path("/sys/bus/event_source/devices/uprobe/type")  # since 4.17


def open_dummy(pid: int, cpu: int, bits: int = 0, wakeup: int = 0) -> int:
    """Open a dummy event (PERF_COUNT_SW_DUMMY), and return its file descriptor.

    ``pid``: 0 is this process, -1 any process.
    ``cpu``: -1 is any CPU.
    ``bits``: flags of ``struct perf_event_attr`` (include/uapi/linux/perf_event.h).
    ``wakeup``: its field ``wakeup_events`` or ``wakeup_watermark``.

    Raises ``OSError``.
    """
    return _open(
        _ATTRIBUTES.pack(_TYPE_SOFTWARE, _ATTRIBUTES.size, _COUNT_SW_DUMMY, bits, wakeup, 0, 0),
        pid,
        cpu,
    )


def open_uprobe(path: str, offset: int) -> int:
    """Open an event that counts hits of a uprobe in all processes; return its file descriptor.

    ``offset``: in the file ``path``. Raises ``OSError``.
    """
    kind = int(_UPROBE_TYPE.read_text("ascii"))
    name = ctypes.create_string_buffer(os.fsencode(path))
    attributes = _ATTRIBUTES.pack(kind, _ATTRIBUTES.size, 0, 0, 0, ctypes.addressof(name), offset)
    return _open(attributes, pid=-1, cpu=0)


def _open(attributes: bytes, pid: int, cpu: int) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    fd = int(libc.syscall(_SYSCALL, attributes, pid, cpu, -1, _FLAG_CLOEXEC))
    if fd < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return fd
