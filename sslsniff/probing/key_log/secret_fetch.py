"""What the probe of a key log fetches from a call, and the line that it becomes."""

import struct
from typing import NamedTuple

from sslsniff.probing.functions.fetch import Fetch
from sslsniff.probing.functions.fetch_steps import FetchStep, StepKind
from sslsniff.probing.functions.locations import (
    R9,
    R10,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    add_constant,
    push_register,
)
from sslsniff.probing.key_log.client_random import RANDOM_BYTES
from sslsniff.probing.plans import go_tls
from sslsniff.probing.probe_set import KeyLogPlace

_LABEL_BYTES = 40
_MOST_SECRET_BYTES = 64
"""The longest hash of a cipher suite is SHA-384; a master secret has 48 bytes, too."""

_DATA = struct.Struct(f"<{_LABEL_BYTES}s{RANDOM_BYTES}sQ{_MOST_SECRET_BYTES}s")
_RANDOM_AT = _LABEL_BYTES
_SIZE_AT = _RANDOM_AT + RANDOM_BYTES
_SECRET_AT = _SIZE_AT + 8
_WORD_BYTES = 8


class _CallRegisters(NamedTuple):
    """The registers of a call. ``label_size``: None: a zero byte ends the label."""

    label: int
    label_size: int | None
    random: int
    """Of the object that it is in, or of its own address."""
    secret: int
    size: int


_OF_C = _CallRegisters(RSI, None, RDI, RDX, RCX)
_OF_GO = _CallRegisters(RBX, RCX, RDI, R9, R10)


class LoggedSecret(NamedTuple):
    """A line of a key log (draft-ietf-tls-keylogfile, section 2).

    ``label``: which secret of the connection it is. ``random``: the client random of its hello.
    """

    label: str
    random: bytes
    secret: bytes

    def __str__(self) -> str:
        return f"{self.label} {self.random.hex()} {self.secret.hex()}"


def fetch_secret(place: KeyLogPlace, library: str) -> Fetch:
    """Return the steps that fetch a secret with its label and its client random."""
    registers = _OF_GO if library == go_tls.LIBRARY else _OF_C
    label = (
        FetchStep(StepKind.COPY_TEXT, _LABEL_BYTES, 0, 0)
        if registers.label_size is None
        else FetchStep(StepKind.COPY_SIZED, _LABEL_BYTES, 0, 0)
    )
    label_size = () if registers.label_size is None else push_register(registers.label_size)
    *pointers, offset = place.random or (0,)
    steps = (
        *push_register(registers.label),
        *label_size,
        label,
        *push_register(registers.random),
        *(FetchStep(StepKind.READ, each, 0, _WORD_BYTES) for each in pointers),
        *add_constant(offset),
        FetchStep(StepKind.COPY, RANDOM_BYTES, _RANDOM_AT, 1),
        *push_register(registers.size),
        FetchStep(StepKind.STORE, 0, _SIZE_AT, 2),
        *push_register(registers.secret),
        *push_register(registers.size),
        FetchStep(StepKind.COPY_SIZED, _MOST_SECRET_BYTES, _SECRET_AT, 3),
    )
    return Fetch(steps, _DATA.size)


def read_secret(data: bytes, failed: int) -> LoggedSecret | None:
    """Return the secret that a probe fetched; None: it could not be read, or is none.

    ``failed`` has a bit set for each item that could not be read.
    """
    if failed or len(data) < _DATA.size:
        return None
    label, random, size, secret = _DATA.unpack_from(data)
    name = label.partition(b"\0")[0]
    if not 0 < size <= _MOST_SECRET_BYTES or not name.isascii():
        return None
    text = name.decode("ascii")
    return LoggedSecret(text, random, secret[:size]) if text.isidentifier() else None
