"""Where a TLS library keeps what it knows of a connection: offsets in its object."""

from typing import ClassVar, NamedTuple, Protocol


class ObjectLayout(NamedTuple):
    """Byte offsets in the object, None if unknown, in the order of ``struct layout`` (maps.bpf.h).

    What is at each offset; a field that is no offset says so:
    ``alpn_base``: a pointer to the structure with ``alpn`` and ``alpn_length``; None: these are in
    the object itself.
    ``version_base``: such a pointer for ``version``.
    ``settled``: a byte that is 0 until ``version`` is the negotiated one; None: it always is.
    ``server_mask``: no offset, but the bits of ``server`` that count; None: all.
    ``server_value``: no offset, but what ``server`` is in a server; None: anything but 0.
    ``sni``: a pointer to the server's name. If that is null, the pointer is at ``sni_inner`` in
    the structure that the pointer at ``sni_base`` leads to, such as the resumed session.
    ``shutdown``: the flags that ``SSL_get_shutdown`` returns.
    ``verified``: the number of what was found of the peer's certificate.
    ``alert``: the number of the alert that was received last.
    ``random``: the client random; ``random_base``: as ``version_base``.
    ``is_typed``: no offset, but 1 if the object begins with a type that is 0 for TLS (OpenSSL 3.2
    and newer, which have objects for QUIC); the offsets hold for that type.

    In Go:
    ``client``: a byte that is not 0 if the traced process is the client.
    ``sni_length``: the length of the server's name.
    ``handshakes``: the number of completed handshakes.
    ``socket_type``: no offset, but the hash of the type ``*net.TCPConn``.
    ``handshake_error``, ``read_error``: why the handshake failed, why nothing more can be read.
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
    verified: int | None = None
    random_base: int | None = None
    random: int | None = None
    alert: int | None = None
    handshake_error: int | None = None
    read_error: int | None = None


class CheckedLayout(Protocol):
    """Where a library's records are, which its own BPF programs check: they count what misfits.

    Such a layout follows from a release, and is not read from a file.
    """

    TABLE: ClassVar[str]
    """The table of the BPF programs that has it, by the probes' index."""

    NO_ROW: ClassVar[bytes]
    """The row that says that there is no such layout."""

    def row(self) -> bytes:
        """Return the row of the table."""

    @staticmethod
    def is_misfit(row: bytes) -> bool:
        """Say by a row of the table whether too many records did not match the layout."""
