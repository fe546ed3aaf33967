"""What was found of rustls in a file."""

from enum import Enum
from typing import NamedTuple

Version = tuple[int, int]
"""Of rustls, as far as it decides what is where: (0, 23)."""


class Method(Enum):
    """A method that plaintext passes.

    ``RECEIVED`` is ``CommonState::take_received_plaintext``, of rustls 0.23 only.
    """

    ENCRYPT = "encrypt"
    DECRYPT = "decrypt"
    RECEIVED = "take_received_plaintext"


class Proof(Enum):
    """By what a function is known: a symbol, one of the separate debug file, its surroundings."""

    SYMBOL = "symbol"
    DEBUG_FILE = "debug file"
    SHAPE = "shape"


class Found(NamedTuple):
    """One function, and what is known of it.

    ``address`` is as linked, ``name`` demangled, without the hash. ``version`` is that of the
    rustls it belongs to, as a file may hold several; ``tls_version`` is 0x0303 or 0x0304, of
    ciphers that are for one only. None: unknown.
    """

    method: Method
    address: int
    size: int
    name: str
    version: Version | None
    tls_version: int | None
    proof: Proof


class Refused(NamedTuple):
    """A rustls of which nothing can be found, and why; ``release`` is None if it is not known."""

    release: str | None
    reason: str


class FoundMethods(NamedTuple):
    """What was found in a file.

    ``versions`` are the releases of rustls that are in it, as far as it says ("0.23.45"), and
    ``refused`` those of which nothing is found. ``doubts`` say, a line each, which function is left
    out and why.
    """

    found: tuple[Found, ...] = ()
    versions: tuple[str, ...] = ()
    refused: tuple[Refused, ...] = ()
    doubts: tuple[str, ...] = ()
