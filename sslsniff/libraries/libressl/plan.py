"""LibreSSL 3 and 4, which have OpenSSL's interface.

``SSL_read`` calls ``ssl3_read``, and ``SSL_write`` calls ``ssl3_write``, which calls
``ssl_write_bytes`` in the object's table of methods: each a jump in the last instruction.
``SSL_read_ex`` and ``SSL_write_ex`` call the former (ssl/ssl_lib.c). There is no early data.

``ssl_write_bytes`` of TLS 1.3, too, ends with a jump (ssl/tls13_legacy.c). So, as compiled by GCC,
no instruction is at the end of writes alone: they need the kernel's return probes.
"""

import re

from sslsniff.libraries.openssl.plan import LIFE, OPENSSL
from sslsniff.machine_code.conventions import Signature
from sslsniff.matching.rows import At, Plan, Row

_OBJECT = ("rdi",)
_PLAIN = ("rdi", "rsi")
_COUNTED = ("rdi", "rsi", "rcx")
_CALLED = Signature("rdi", "rsi")

_READ_PLAIN = Row("SSL_read", "c_read_plain_enter", "c_return", _PLAIN)
_READ_HANDED = Row(
    function="SSL_read",
    enter="c_call_enter",
    leave="c_return",
    at=At.HANDED,
    outer=(("SSL_read", _CALLED),),
    others=(("SSL_peek", _CALLED),),
)
_WRITE_PLAIN = Row("SSL_write", "c_write_plain_enter", "c_return", _PLAIN)
LIBRESSL = Plan(
    library="libressl",
    symbols=OPENSSL.symbols,
    marks=("SSL_CTX_load_verify_mem",),
    file_names=OPENSSL.file_names,
    required=(((_READ_HANDED,), (_READ_PLAIN,)), ((_WRITE_PLAIN,),)),
    optional=(
        Row("SSL_read_ex", "c_read_enter", "c_return", _COUNTED, through=("SSL_read",)),
        Row("SSL_write_ex", "c_write_enter", "c_return", _COUNTED, through=("SSL_write",)),
        Row("SSL_do_handshake", "c_handshake_enter", registers=_OBJECT),
        *LIFE,
    ),
    version=re.compile(rb"LibreSSL (\d+\.\d+\.\d+)\0"),
    layout=OPENSSL.layout,
)
