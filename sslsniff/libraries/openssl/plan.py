"""OpenSSL 1.0.2 to 4.0.

``SSL_read`` and ``SSL_read_ex`` both call ``ssl_read_internal(ssl, buffer, size, size_t *count)``
(ssl/ssl_lib.c since 1.1.1), so one place sees all reads; likewise for writes. Since 3.3, which
brought ``SSL_write_ex2``, ``ssl_write_internal`` has the flags before the count. A compiler may
inline the internal function into its callers (Node.js). The alternatives, in this order:

- The internal function calls a function in the object's table of methods, such as ``ssl3_read``,
  which calls others. These inner functions are probed if they have cheap places.
- The internal function is probed, if it exists.
- ``SSL_read`` and ``SSL_write`` may have cheap places. Then they are probed, and the other calls of
  the internal function where it is called (in ``SSL_read_ex`` and the BIO of ``BIO_f_ssl``).
- Each public function is probed.

``SSL_write_ex`` calls ``SSL_write_ex2``, ``SSL_read_early_data`` and ``SSL_write_early_data`` call
``SSL_read_ex`` and ``SSL_write_ex``, unless the compiler inlined these. ``SSL_peek`` is not probed:
a read gets its bytes again.
"""

import re
from typing import TYPE_CHECKING

from sslsniff.machine_code.conventions import Signature
from sslsniff.matching.object_layout import ObjectLayout
from sslsniff.matching.rows import At, Passing, Plan, Raising, Row

if TYPE_CHECKING:
    from sslsniff.elf.elf_file import Elf

_OBJECT = ("rdi",)
_PLAIN = ("rdi", "rsi")
_COUNTED = ("rdi", "rsi", "rcx")
_FLAGGED = ("rdi", "rsi", "r8")
_HANDED_ON = ("rdi", "rsi", "rdx", "rcx")

_CALLED_PLAIN = Signature("rdi", "rsi")
_CALLED_COUNTED = Signature("rdi", "rsi", "rcx")
_CALLED_FLAGGED = Signature("rdi", "rsi", "r8")

_READ_INNER = Row(
    function="SSL_read",
    enter="c_call_enter",
    leave="c_return",
    at=At.INNER,
    outer=(("SSL_read", _CALLED_PLAIN), ("SSL_read_ex", _CALLED_COUNTED)),
    others=(("SSL_peek", _CALLED_PLAIN), ("SSL_peek_ex", _CALLED_COUNTED)),
)
_READ_INTERNAL = Row(
    function=(Passing("SSL_read_ex", _HANDED_ON), Passing("SSL_read")),
    enter="c_read_enter",
    leave="c_return",
    registers=_COUNTED,
)
READ_PLAIN = Row("SSL_read", "c_read_plain_enter", "c_return", _PLAIN)
_READ_SPAN = (READ_PLAIN._replace(at=At.SPAN), _READ_INTERNAL._replace(at=At.CALLS))
READ_ALONE = READ_PLAIN._replace(unless="SSL_read_ex")
READ_EX = Row("SSL_read_ex", "c_read_enter", "c_return", _COUNTED, through=())

_WRITE_INNER = Row(
    function="SSL_write",
    enter="c_call_enter",
    leave="c_return",
    at=At.INNER,
    outer=(
        ("SSL_write", _CALLED_PLAIN),
        ("SSL_write_ex", _CALLED_COUNTED),
        ("SSL_write_ex2", _CALLED_FLAGGED),
    ),
    writes=True,
)
_WRITE_INTERNAL_FLAGS = Row(
    function=(Passing("SSL_write_ex2", (*_HANDED_ON, "r8")), Passing("SSL_write")),
    enter="c_write_flags_enter",
    leave="c_return",
    registers=_FLAGGED,
)
_WRITE_INTERNAL = Row(
    function=(Passing("SSL_write_ex", _HANDED_ON), Passing("SSL_write")),
    enter="c_write_enter",
    leave="c_return",
    registers=_COUNTED,
    unless="SSL_write_ex2",
)
WRITE_PLAIN = Row("SSL_write", "c_write_plain_enter", "c_return", _PLAIN)
_WRITE_SPAN_FLAGS = (
    WRITE_PLAIN._replace(at=At.SPAN),
    _WRITE_INTERNAL_FLAGS._replace(at=At.CALLS),
)
_WRITE_SPAN = (WRITE_PLAIN._replace(at=At.SPAN), _WRITE_INTERNAL._replace(at=At.CALLS))
WRITE_ALONE = WRITE_PLAIN._replace(unless="SSL_write_ex")
WRITE_EX = Row("SSL_write_ex", "c_write_enter", "c_return", _COUNTED, through=())
_WRITE_EX2 = Row("SSL_write_ex2", "c_write_flags_enter", "c_return", _FLAGGED, through=())

_EARLY_DATA = (
    READ_EX._replace(function="SSL_read_early_data", through=("SSL_read_ex",)),
    WRITE_EX._replace(function="SSL_write_early_data", through=("SSL_write_ex", "SSL_write_ex2")),
)
LIFE = (
    Row("SSL_free", "openssl_free_enter", registers=_OBJECT),
    Row("SSL_clear", "openssl_clear_enter", registers=_OBJECT),
    Row("SSL_shutdown", "openssl_shutdown_enter", registers=_OBJECT),
)
"""How connections begin and end, for all with OpenSSL's interface."""

_ERR_LIB_SSL = 20
_FATAL = (
    Row(
        Raising("ossl_statem_fatal", "ERR_vset_error", _ERR_LIB_SSL, (("rsi", "rdx"),)),
        "openssl_fatal_enter",
        registers=("rdi", "rsi", "rdx"),
    ),
    Row(
        Raising(
            "ossl_statem_fatal",
            "ERR_put_error",
            _ERR_LIB_SSL,
            (("rsi", "rdx"), ("rdx", "rcx"), ("rcx", "r8")),
        ),
        "openssl_fatal_line_enter",
        registers=("rdi", "rsi", "rcx"),
    ),
)
"""``ossl_statem_fatal`` (ssl/statem/statem.c), through which each fatal error goes: since 3.0
``(object, alert, reason, ...)``, in 1.1.1 ``(object, alert, function, reason, file, line)``."""


def _read_layout(elf: "Elf") -> ObjectLayout:
    from sslsniff.libraries.openssl.layout import read_openssl_layout  # only to analyse a file

    return read_openssl_layout(elf)


OPENSSL = Plan(
    library="openssl",
    symbols=("SSL_read", "SSL_write", "SSL_new"),
    marks=(),
    file_names=("libssl.so", "libssl-"),
    required=(
        ((_READ_INNER,), (_READ_INTERNAL,), _READ_SPAN, (READ_PLAIN, READ_EX), (READ_ALONE,)),
        (
            (_WRITE_INNER,),
            (_WRITE_INTERNAL_FLAGS,),
            _WRITE_SPAN_FLAGS,
            (_WRITE_INTERNAL,),
            _WRITE_SPAN,
            (WRITE_PLAIN, _WRITE_EX2, WRITE_EX),
            (WRITE_PLAIN, WRITE_EX._replace(unless="SSL_write_ex2")),
            (WRITE_ALONE,),
        ),
    ),
    optional=(
        *_EARLY_DATA,
        *LIFE,
        *_FATAL,
        Row("SSL_sendfile", "c_sendfile_enter", "c_return", _OBJECT),
    ),
    version=re.compile(rb"OpenSSL (\d+\.\d+\.\d+[a-z]*) +\d+ [A-Z][a-z]{2} \d{4}\0"),
    # libssl itself has no text with its version since 3.0, but each minor release has new symbols.
    symbol_version=re.compile(rb"\0OPENSSL_(\d+\.\d+)\.\d+(?=\0)"),
    layout=_read_layout,
)

_FOUND_BY_ERRORS = ("SSL_free", "SSL_shutdown", "SSL_sendfile")
_INNER_NEW = "ossl_ssl_connection_new_int"
"""What makes a connection that is not one of QUIC: ``SSL_new`` of 3.2 and later jumps there."""
ROWS_BY_ERRORS: dict[str, Row] = {
    "ssl_read_internal in SSL_read": READ_PLAIN,
    "ssl_read_internal": READ_EX._replace(through=None),
    "ssl_write_internal in SSL_write": WRITE_PLAIN,
    "ssl_write_internal": WRITE_EX._replace(through=None),
    "ssl_write_internal with flags": _WRITE_EX2._replace(through=None),
}
"""The rows for functions that ``functions_without_symbols`` finds by names in errors."""
OPENSSL_WITHOUT_SYMBOLS = OPENSSL._replace(
    required=tuple(((row,),) for row in ROWS_BY_ERRORS.values()),
    optional=(
        Row("SSL_new", leave="openssl_new_return"),
        Row(_INNER_NEW, leave="openssl_new_return"),
        *(row for row in OPENSSL.optional if row.function in _FOUND_BY_ERRORS),
    ),
)
"""In files without symbols. ``plan_without_symbols`` says what is required of it."""
