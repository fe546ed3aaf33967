"""GnuTLS 3.7 and 3.8.

All that sends application data, ``gnutls_record_uncork`` too, ends in ``_gnutls_send_tlen_int``,
which ``gnutls_record_send2`` calls. That hands each record to ``_gnutls_encrypt``, once: a call
that returned ``GNUTLS_E_AGAIN`` goes on later, perhaps with ``(NULL, 0)``. So a byte counts when it
is encrypted; what is corked counts when it is sent. ``gnutls_record_recv`` and
``gnutls_record_recv_seq`` get data from ``_gnutls_recv_int``. With kTLS both directions pass
functions of lib/system/ktls.c instead (lib/record.c, lib/range.c). Early data is sent by
``gnutls_record_send``, too (lib/tls13/early_data.c).
"""

import re
from typing import TYPE_CHECKING

from sslsniff.machine_code.conventions import Signature
from sslsniff.matching.object_layout import ObjectLayout
from sslsniff.matching.rows import At, Continued, Plan, Row

if TYPE_CHECKING:
    from sslsniff.elf.elf_file import Elf

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
    record="c_record_enter",
)
_RECEIVED = Row(
    function="gnutls_record_recv",
    enter="c_call_enter",
    leave="c_return",
    at=At.HANDED,
    outer=(("gnutls_record_recv", _CALLED), ("gnutls_record_recv_seq", _CALLED)),
    kind=_APPLICATION_DATA,
)


def _read_layout(elf: "Elf") -> ObjectLayout:
    from sslsniff.libraries.gnutls.layout import read_gnutls_layout  # only to analyse a file

    return read_gnutls_layout(elf)


GNUTLS = Plan(
    library="gnutls",
    symbols=("gnutls_record_send", "gnutls_record_recv", "gnutls_init"),
    marks=(),
    file_names=("libgnutls.so",),
    required=(((_RECEIVED,),), ((_SENT,),)),
    optional=(
        Row("gnutls_record_recv_early_data", "c_read_plain_enter", "c_return", ("rdi", "rsi")),
        Row("gnutls_record_recv_packet", "gnutls_packet_enter", "c_return", ("rdi", "rsi")),
        Row("gnutls_handshake", "c_handshake_enter", registers=("rdi",)),
        Row(
            Continued("gnutls_certificate_verify_peers", ("rdi", "rcx")),
            "gnutls_verify_enter",
            "gnutls_verify_return",
            ("rdi", "rcx"),
        ),
        Row("gnutls_alert_send", "c_alert_enter", registers=("rdi", "rsi", "rdx")),
        Row("gnutls_deinit", "openssl_free_enter", registers=("rdi",)),
    ),
    version=re.compile(rb"Enabled GnuTLS (\d[\d.]*) logging"),
    layout=_read_layout,
)
