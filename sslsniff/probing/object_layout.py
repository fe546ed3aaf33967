"""Where a TLS library keeps what it knows of a connection: offsets in its object."""

from typing import NamedTuple


class ObjectLayout(NamedTuple):
    """Byte offsets; None where unknown. The order is that of ``struct layout`` in bpf/maps.bpf.h.

    ``is_typed`` is 1 where the object begins with a type that is 0 for TLS (OpenSSL 3.2 and
    newer, where an object may be one of QUIC); the other offsets hold for that type.
    ``alpn_base`` is the place of a pointer to what ``alpn`` and ``alpn_length`` are offsets in;
    None where that is the object itself. ``sni`` is the place of the server's name; where null
    is there, the name's place is ``sni_inner`` in what ``sni_base`` points to, such as the
    session that was resumed. ``shutdown`` is that of the flags of ``SSL_get_shutdown``.

    Of Go's objects: ``client`` is the place of a byte that is not 0 where the traced process is the
    client, ``sni_length`` of the length of the server's name, ``handshakes`` of the number of
    completed ones. ``socket_type`` is no offset but the hash of ``*net.TCPConn``.
    """

    server: int | None = None
    version: int | None = None
    alpn_base: int | None = None
    alpn: int | None = None
    alpn_length: int | None = None
    session: int | None = None
    session_cipher: int | None = None
    cipher_name: int | None = None
    references: int | None = None
    sni: int | None = None
    sni_base: int | None = None
    sni_inner: int | None = None
    shutdown: int | None = None
    client: int | None = None
    sni_length: int | None = None
    handshakes: int | None = None
    socket_type: int | None = None
    is_typed: int | None = None
