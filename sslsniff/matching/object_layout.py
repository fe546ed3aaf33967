"""Where a TLS library keeps what it knows of a connection: offsets in its object."""

from typing import NamedTuple


class ObjectLayout(NamedTuple):
    """Byte offsets in the object, None if unknown, in the order of ``struct layout`` (maps.bpf.h).

    ``alpn_base``: of a pointer to the structure with ``alpn`` and ``alpn_length``; None: these are
    in the object itself.
    ``version_base``: as ``alpn_base``, for ``version``.
    ``settled``: of a byte that is 0 until ``version`` is the negotiated one; None: it always is.
    ``server_mask``: no offset, but the bits of ``server`` that count; None: all.
    ``server_value``: no offset, but what ``server`` is in a server; None: anything but 0.
    ``sni``: of a pointer to the server's name. If that is null, the pointer is at ``sni_inner`` in
    the structure that the pointer at ``sni_base`` leads to, such as the resumed session.
    ``shutdown``: of the flags that ``SSL_get_shutdown`` returns.
    ``is_typed``: no offset, but 1 if the object begins with a type that is 0 for TLS (OpenSSL 3.2
    and newer, which have objects for QUIC); the offsets hold for that type.

    In Go:
    ``client``: of a byte that is not 0 if the traced process is the client.
    ``sni_length``: of the length of the server's name.
    ``handshakes``: of the number of completed handshakes.
    ``socket_type``: no offset, but the hash of the type ``*net.TCPConn``.
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
    server_value: int | None = None
    version_base: int | None = None
    settled: int | None = None
    server_mask: int | None = None


class RustlsLayout(NamedTuple):
    """Byte offsets, None if unknown, in the order of ``struct rustls_layout`` (bpf/maps.bpf.h).

    ``application_data``: no offset, but the value of the type byte for application data: since 0.24
    that on the wire (RFC 8446 section 5.1), before the number of a variant.
    ``message_type``: in the message to encrypt; the plaintext is at the message's beginning.
    ``has_slices``: no offset, but 1 if the plaintext is an enum of a slice and a list of slices,
    0 if it is a slice.
    ``result_data``, ``result_size``, ``result_type``: in the result of decrypting.
    ``encrypter``, ``decrypter``: of the pointers to the ciphers in the connection's state
    (``CommonState``).
    """

    application_data: int
    message_type: int
    has_slices: int
    result_data: int
    result_size: int
    result_type: int
    encrypter: int | None = None
    decrypter: int | None = None
