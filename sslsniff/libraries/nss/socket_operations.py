"""NSS's tables of socket operations, ``sslSocketOps`` (lib/ssl/sslsock.c): data only."""

from sslsniff.matching.rows import Listed, PointerTable

_BIND, _LISTEN, _GET_PEER_NAME, _GET_SOCKET_NAME = 2, 3, 10, 11
_CONNECT, _ACCEPT, CLOSE, RECEIVE, SEND, _READ = 0, 1, 5, 6, 7, 8

OPERATIONS = PointerTable(
    size=12,
    empty=frozenset({_ACCEPT}),
    common=frozenset({_BIND, _LISTEN, _GET_PEER_NAME, _GET_SOCKET_NAME}),
    passes=(_READ, RECEIVE),
)
"""``sslSocketOps``: the same in all releases since 3.12."""

CONNECTS = Listed("ssl_SecureConnect", OPERATIONS, _CONNECT)
"""Stores ssl_BeginClientHandshake or ssl_BeginServerHandshake, with which the handshake begins."""
