"""Go's crypto/tls, 1.16 and later: which functions are probed, and with what.

``Read`` has its bytes in the caller's buffer before it returns; ``Write`` and nothing else hands
``writeRecordLocked`` records of application data, and it all of them at once
(src/crypto/tls/conn.go).
"""

import re
from typing import NamedTuple

from sslsniff.machine_code.instructions import CallingConvention

LIBRARY = "go"

_RECEIVER, _FIRST, _SECOND, _THIRD = range(4)
_WORD_BYTES = 8


class GoRow(NamedTuple):
    """A function, its BPF program, and the arguments that the program gets.

    By their numbers: the receiver, then each word of the others. Of ``kind`` the low byte is meant.
    ``with_result``: the program gets the count that the function returns, when what was read is in
    its buffer. ``caller`` must call the function: if it does not, the compiler has put a copy of it
    there. ``is_required``: without a place for its probe the program is not probed.
    """

    function: str
    program: str
    arguments: tuple[int, ...]
    kind: int | None = None
    with_result: bool = False
    caller: str | None = None
    is_required: bool = True


ROWS = (
    GoRow("crypto/tls.(*Conn).Read", "go_read", (_RECEIVER, _FIRST), with_result=True),
    GoRow(
        "crypto/tls.(*Conn).writeRecordLocked",
        "go_write",
        (_RECEIVER, _SECOND, _THIRD),
        kind=_FIRST,
        caller="crypto/tls.(*Conn).Write",
    ),
    GoRow("crypto/tls.(*Conn).Close", "go_close", (_RECEIVER,)),
    GoRow("crypto/tls.(*Conn).clientHandshake", "go_handshake", (_RECEIVER,)),
    GoRow("crypto/tls.(*Conn).serverHandshake", "go_handshake", (_RECEIVER,)),
    GoRow("crypto/tls.(*Conn).flush", "go_flush", (_RECEIVER,), is_required=False),
)
"""A program has not all of them: Go's linker leaves out what is never called."""

COPIES = ("runtime.memmove", "bytes.(*Reader).Read")
"""What ``Read`` calls to copy: the second if it was built without optimisation."""

FATAL = ("runtime.panic", "runtime.goPanic", "runtime.gopanic", "runtime.throw")
"""Beginnings of the names of functions that do not return."""

REGISTERS = CallingConvention(
    ("rax", "rbx", "rcx", "rdi", "rsi", "r8", "r9", "r10", "r11"),
    "rax",
    frozenset({"rsp", "rbp"}),
    has_own_arguments=True,
)
"""ABIInternal since Go 1.17 (src/cmd/compile/abi-internal.md)."""

_READ_ARGUMENTS = 4

STACK = CallingConvention(
    tuple(_WORD_BYTES * number for number in range(1, 6)),
    _WORD_BYTES * (1 + _READ_ARGUMENTS),
    frozenset({"rsp"}),
    has_own_arguments=True,
)
"""Before: arguments above the return address, then results; the result is that of ``Read``."""

_BEGINNINGS = (
    (REGISTERS, rb"\x49\x3b\x66\x10"),  # cmp rsp, [r14 + 16]
    (REGISTERS, rb"\x4c\x8d(\x64\x24.|\xa4\x24.{4})\x4d\x3b\x66\x10"),  # lea r12; cmp r12, ...
    (STACK, rb"\x64\x48\x8b\x0c\x25.{4}"),  # mov rcx, fs:-8
    (STACK, rb"\x48\xc7\xc1.{4}\x64\x48\x8b\x09"),  # mov rcx, -8; mov rcx, fs:[rcx]
)


def convention(code: bytes) -> CallingConvention | None:
    """Return the calling convention of a function, by the way in which it begins; None: it is none.

    It compares its stack pointer with the limit of its goroutine's stack (src/cmd/internal/obj/x86,
    stacksplit).
    """
    matches = (found for found, begins in _BEGINNINGS if re.match(begins, code, re.DOTALL))
    return next(matches, None)


FIELDS = (
    *("isClient", "config", "vers", "handshakes", "serverName", "clientProtocol"),
    *("handshakeErr", "in"),
)
"""Of ``tls.Conn``, which begins with its net.Conn, ``conn``."""

ERROR_IN_HALF = 8
"""The offset of ``err`` in ``halfConn``, which ``in`` is: after a mutex of two numbers."""
