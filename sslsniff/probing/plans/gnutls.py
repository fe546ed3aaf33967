"""GnuTLS 3.6 to 3.8.

All that sends records, ``gnutls_record_uncork`` too, calls ``gnutls_record_send2``. It hands
application data to ``_gnutls_send_tlen_int``, or with kTLS to a function of lib/system/ktls.c;
``gnutls_record_recv`` and ``gnutls_record_recv_seq`` get it from ``_gnutls_recv_int`` or from there
(lib/record.c). So what is corked counts when it is sent, and nothing counts twice.
"""

import re

from sslsniff.machine_code.conventions import Signature
from sslsniff.probing.plans.rows import At, Plan, Row

_APPLICATION_DATA = 23
"""GNUTLS_APPLICATION_DATA (RFC 8446, section 5.1)."""

_CALLED = Signature("rdi", "rsi")

_SENT = Row(
    function="gnutls_record_send",
    enter="c_call_enter",
    leave="c_return",
    at=At.HANDED,
    outer=(("gnutls_record_send2", _CALLED),),
    writes=True,
    kind=_APPLICATION_DATA,
)
_RECEIVED = Row(
    function="gnutls_record_recv",
    enter="c_call_enter",
    leave="c_return",
    at=At.HANDED,
    outer=(("gnutls_record_recv", _CALLED), ("gnutls_record_recv_seq", _CALLED)),
    kind=_APPLICATION_DATA,
)

GNUTLS = Plan(
    library="gnutls",
    symbols=("gnutls_record_send", "gnutls_record_recv", "gnutls_init"),
    marks=(),
    file_names=("libgnutls.so",),
    required=(((_RECEIVED,),), ((_SENT,),)),
    optional=(
        Row("gnutls_record_recv_early_data", "c_read_plain_enter", "c_return", ("rdi", "rsi")),
        Row("gnutls_record_send_early_data", "c_write_plain_enter", "c_return", ("rdi", "rsi")),
        Row("gnutls_handshake", "c_handshake_enter", registers=("rdi",)),
        Row("gnutls_deinit", "openssl_free_enter", registers=("rdi",)),
    ),
    version=re.compile(rb"Enabled GnuTLS (\d[\d.]*) logging"),
)
