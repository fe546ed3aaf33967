"""NSS 3.x, the TLS library of Firefox and Thunderbird.

A program calls ``PR_Read`` and others of NSPR, which serve files and plain sockets as well. On a
TLS layer they call ``ssl_Read`` and others (lib/ssl/sslsock.c). These call the functions in one of
two tables of ``sslSocketOps``: ``ssl_secure_ops``, or ``ssl_default_ops`` if the layer does not use
TLS (yet). ``ssl_SecureRead`` calls ``ssl_SecureRecv``, ``ssl_SecureWrite`` calls
``ssl_SecureSend``, and ``ssl_WriteV`` sends each of its pieces. So two functions see each byte once
(lib/ssl/sslsecur.c).

The object is the ``sslSocket``: a ``PRFileDesc`` changes its place when a layer is pushed on it.
"""

import re
from typing import TYPE_CHECKING

from sslsniff.libraries.nss.socket_operations import CLOSE, CONNECTS, OPERATIONS, RECEIVE, SEND
from sslsniff.machine_code.conventions import Signature
from sslsniff.matching.object_layout import ObjectLayout
from sslsniff.matching.rows import At, CallingBack, Listed, Plan, Row

if TYPE_CHECKING:
    from sslsniff.elf.elf_file import Elf

_NO_FLAGS = 0
"""A read with PR_MSG_PEEK does not count: another one gets the same bytes."""

_OBJECT = ("rdi",)

_RECEIVED = Row(
    function=Listed("ssl_SecureRecv", OPERATIONS, RECEIVE),
    enter="c_call_enter",
    leave="c_return",
    at=At.SIGNED,
    signature=Signature("rdi", "rsi", kind=("rcx", _NO_FLAGS)),
)
_SENT = Row(
    function=Listed("ssl_SecureSend", OPERATIONS, SEND),
    enter="c_call_enter",
    leave="c_return",
    at=At.SIGNED,
    signature=Signature("rdi", "rsi"),
    writes=True,
)


_SENDS_ALERT = CallingBack("SSL3_SendAlert", "SSL_AlertSentCallback", ("rdi", "rsi", "rdx"))
_HANDLES_RECORD = CallingBack(
    "ssl3_HandleNonApplicationData", "SSL_AlertReceivedCallback", ("rdi", "rsi", "r8")
)
"""Where alerts pass (lib/ssl/ssl3con.c). All records but those of application data pass the second,
which has ssl3_HandleAlert inlined."""


def _read_layout(elf: "Elf") -> ObjectLayout:
    from sslsniff.libraries.nss.layout import read_nss_layout  # only to analyse a file

    return read_nss_layout(elf)


NSS = Plan(
    library="nss",
    symbols=("SSL_ImportFD", "SSL_SetURL"),
    marks=(),
    file_names=("libssl3.so",),
    required=(((_RECEIVED,),), ((_SENT,),)),
    optional=(
        Row(CONNECTS, "c_handshake_enter", registers=_OBJECT, at=At.STORED),
        Row(Listed("ssl_SecureClose", OPERATIONS, CLOSE), "openssl_free_enter", None, _OBJECT),
        Row(_SENDS_ALERT, "c_alert_enter", registers=_SENDS_ALERT.registers),
        Row(_HANDLES_RECORD, "nss_record_enter", registers=_HANDLES_RECORD.registers),
    ),
    version=re.compile(rb"Version: NSS (\d[\d.]*)"),
    layout=_read_layout,
)
