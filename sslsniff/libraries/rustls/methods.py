"""The methods of rustls that were found in a file."""

from enum import Enum
from typing import NamedTuple

Version = tuple[int, int]
"""A version of rustls, as far as it decides the layout of structs: (0, 23)."""


class Method(Enum):
    """A method that plaintext passes.

    ``RECEIVED`` is ``CommonState::take_received_plaintext``, of rustls 0.23 only.
    """

    ENCRYPT = "encrypt"
    DECRYPT = "decrypt"
    RECEIVED = "take_received_plaintext"


class Proof(Enum):
    """How a function was found: by its symbol, by one in the debug file, or by its vtable."""

    SYMBOL = "symbol"
    DEBUG_FILE = "debug file"
    SHAPE = "shape"


class Found(NamedTuple):
    """A function that was found.

    ``address``: as linked.
    ``name``: demangled, without the hash.
    ``version``: that of its rustls, because a file may have several; None: unknown.
    ``tls_version``: 0x0303 or 0x0304 if its cipher is for that one only; None: unknown.
    """

    method: Method
    address: int
    size: int
    name: str
    version: Version | None
    tls_version: int | None
    proof: Proof


class Refused(NamedTuple):
    """A rustls whose methods cannot be found, and why; ``release`` is None if it is unknown."""

    release: str | None
    reason: str


class FoundMethods(NamedTuple):
    """All that was found in a file.

    ``versions``: the releases of rustls in the file, if it names them ("0.23.45").
    ``refused``: the releases whose methods cannot be found.
    ``doubts``: a line for each function that was left out, with the reason.
    """

    found: tuple[Found, ...] = ()
    versions: tuple[str, ...] = ()
    refused: tuple[Refused, ...] = ()
    doubts: tuple[str, ...] = ()
