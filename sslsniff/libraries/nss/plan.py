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

from sslsniff.libraries.nss.layout import read_nss_layout
from sslsniff.machine_code.conventions import Signature
from sslsniff.matching.rows import At, Listed, Plan, PointerTable, Row

_NO_FLAGS = 0
"""A read with PR_MSG_PEEK does not count: another one gets the same bytes."""

_BIND, _LISTEN, _GET_PEER_NAME, _GET_SOCKET_NAME = 2, 3, 10, 11
_CONNECT, _ACCEPT, _CLOSE, _RECEIVE, _SEND, _READ = 0, 1, 5, 6, 7, 8

_OPERATIONS = PointerTable(
    size=12,
    empty=frozenset({_ACCEPT}),
    common=frozenset({_BIND, _LISTEN, _GET_PEER_NAME, _GET_SOCKET_NAME}),
    passes=(_READ, _RECEIVE),
)
"""``sslSocketOps``: the same in all releases since 3.12."""

_OBJECT = ("rdi",)
CONNECTS = Listed("ssl_SecureConnect", _OPERATIONS, _CONNECT)
"""Stores ssl_BeginClientHandshake or ssl_BeginServerHandshake, with which the handshake begins."""

_RECEIVED = Row(
    function=Listed("ssl_SecureRecv", _OPERATIONS, _RECEIVE),
    enter="c_call_enter",
    leave="c_return",
    at=At.SIGNED,
    signature=Signature("rdi", "rsi", kind=("rcx", _NO_FLAGS)),
)
_SENT = Row(
    function=Listed("ssl_SecureSend", _OPERATIONS, _SEND),
    enter="c_call_enter",
    leave="c_return",
    at=At.SIGNED,
    signature=Signature("rdi", "rsi"),
    writes=True,
)

NSS = Plan(
    library="nss",
    symbols=("SSL_ImportFD", "SSL_SetURL"),
    marks=(),
    file_names=("libssl3.so",),
    required=(((_RECEIVED,),), ((_SENT,),)),
    optional=(
        Row(CONNECTS, "c_handshake_enter", registers=_OBJECT, at=At.STORED),
        Row(Listed("ssl_SecureClose", _OPERATIONS, _CLOSE), "openssl_free_enter", None, _OBJECT),
    ),
    version=re.compile(rb"Version: NSS (\d[\d.]*)"),
    layout=read_nss_layout,
)
