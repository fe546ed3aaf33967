"""What user space reads in the tables of the BPF programs while these write there."""

from collections.abc import Iterator
from typing import Any, cast

from sslsniff.capture.maps import Tables
from sslsniff.core import wire
from sslsniff.core.events import TlsStart
from sslsniff.kernel.loaders.loader import Loader

_START = 10
"""The field ``start`` of ``struct tls_socket``, which is set after the entry was made."""


class Rows:
    """A table of TLS sockets: one whose entry was just made, and one that is filled in."""

    def __init__(self) -> None:
        made = bytes(wire.TLS_SOCKET.size)
        fields: list[Any] = [*wire.TLS_SOCKET.unpack(made)]
        fields[_START] = TlsStart.JOINED
        self._rows = {b"\1" + bytes(7): made, b"\2" + bytes(7): wire.TLS_SOCKET.pack(*fields)}

    def keys(self, table: str, size: int) -> Iterator[bytes]:
        return iter(self._rows)

    def lookup(self, table: str, key: bytes, size: int) -> bytes | None:
        return self._rows.get(key)


def test_a_socket_on_which_tls_begins_just_now_is_not_there_yet() -> None:
    tables = Tables(cast(Loader, Rows()))
    assert tables.tls_socket(1) is None
    [(sock, value)] = tables.open_tls_sockets()
    assert (sock, wire.tls_socket(sock, value, 0).start) == (2, TlsStart.JOINED)
