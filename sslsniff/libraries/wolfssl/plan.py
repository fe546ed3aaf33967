"""wolfSSL 4 and 5.

``wolfSSL_read``, ``wolfSSL_recv`` and the rest get application data from ``wolfSSL_read_internal``,
whose last argument says whether to leave it there (``wolfSSL_peek``). In 5.8 ``wolfSSL_write`` and
``wolfSSL_write_ex`` hand theirs to ``wolfSSL_write_internal``, which calls ``SendData``; before,
``wolfSSL_write`` called that itself (src/ssl.c). ``wolfSSL_send`` and ``wolfSSL_writev`` call
``wolfSSL_write``. Early data goes to ``SendData`` and comes from ``ReceiveData`` (src/tls13.c).

Where the functions without symbols cannot be probed, the public ones are.
"""

import re

from sslsniff.machine_code.conventions import Signature
from sslsniff.matching.rows import At, Plan, Row

_OBJECT = ("rdi",)
_PLAIN = ("rdi", "rsi")
_COUNTED = ("rdi", "rsi", "rcx")
_LIST = ("rdi", "rsi", "rdx")

_CALLED = Signature("rdi", "rsi")
_PEEK = 0
"""FALSE: what is read is gone."""

_READ_PLAIN = Row("wolfSSL_read", "c_read_plain_enter", "c_return", _PLAIN)
_READ_HANDED = Row(
    function="wolfSSL_read",
    enter="c_call_enter",
    leave="c_return",
    at=At.HANDED,
    outer=(("wolfSSL_read", _CALLED),),
    kind=_PEEK,
)
_WRITE_PLAIN = Row("wolfSSL_write", "c_write_plain_enter", "c_return", _PLAIN)
_WRITE_HANDED = Row(
    function="wolfSSL_write",
    enter="c_call_enter",
    leave="c_return",
    at=At.HANDED,
    outer=(("wolfSSL_write", _CALLED),),
    writes=True,
)

WOLFSSL = Plan(
    library="wolfssl",
    symbols=("wolfSSL_read", "wolfSSL_write", "wolfSSL_new"),
    marks=(),
    file_names=("libwolfssl.so",),
    required=(((_READ_HANDED,), (_READ_PLAIN,)), ((_WRITE_HANDED,), (_WRITE_PLAIN,))),
    optional=(
        Row("wolfSSL_read_ex", "c_read_enter", "c_return", _COUNTED, through=("wolfSSL_read",)),
        Row("wolfSSL_write_ex", "c_write_enter", "c_return", _COUNTED, through=("wolfSSL_write",)),
        Row(
            "wolfSSL_writev",
            "c_write_list_enter",
            "c_list_return",
            _LIST,
            through=("wolfSSL_write",),
        ),
        Row("wolfSSL_read_early_data", "c_read_plain_enter", "c_return", _PLAIN, through=()),
        Row("wolfSSL_write_early_data", "c_write_plain_enter", "c_return", _PLAIN, through=()),
        Row("wolfSSL_negotiate", "c_handshake_enter", registers=_OBJECT),
        Row("wolfSSL_connect", "c_handshake_enter", registers=_OBJECT),
        Row("wolfSSL_accept", "c_handshake_enter", registers=_OBJECT),
        Row("wolfSSL_free", "openssl_free_enter", registers=_OBJECT),
        Row("wolfSSL_clear", "openssl_clear_enter", registers=_OBJECT),
    ),
    version=re.compile(rb"wolfSSL (\d+\.\d+\.\d+)\0"),
)
