"""Where the arguments and results of rustls' ciphers have a record: a row of a BPF table."""

import struct
from dataclasses import astuple, dataclass
from typing import ClassVar

_ROW = struct.Struct("<8iQQ")  # struct rustls_layout, bpf/maps.bpf.h
_UNKNOWN = -1
_MISFITS_ALLOWED = 8  # bpf/rustls.bpf.h


@dataclass(frozen=True)
class RustlsLayout:
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

    TABLE: ClassVar[str] = "rustls_layouts"
    NO_ROW: ClassVar[bytes] = _ROW.pack(*[_UNKNOWN] * 8, 0, 0)

    def row(self) -> bytes:
        """See ``CheckedLayout``."""
        return _ROW.pack(*(_UNKNOWN if each is None else each for each in astuple(self)), 0, 0)

    @staticmethod
    def is_misfit(row: bytes) -> bool:
        """See ``CheckedLayout``."""
        *_, fits, misfits = _ROW.unpack(row)
        return bool(misfits > fits + _MISFITS_ALLOWED)
