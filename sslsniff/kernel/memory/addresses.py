"""Finds the address of memory that Python has, for functions in C."""

import ctypes
from ctypes import c_void_p


class _Buffer(ctypes.Structure):
    """``Py_buffer``, stable since CPython 3.11: ctypes itself accepts only writable memory."""

    _fields_ = (("address", c_void_p), ("_rest", c_void_p * 9))


def address_of(data: memoryview) -> int:
    """Return the address of the bytes in memory; it is valid as long as ``data`` exists."""
    buffer = _Buffer()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(data), ctypes.byref(buffer), 0)
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(buffer))  # ``data`` itself keeps the memory
    return buffer.address or 0
