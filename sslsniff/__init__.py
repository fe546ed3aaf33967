"""sslsniff: the plaintext of TLS traffic on a Linux host, live.

``decode`` and the types that it takes and yields are the library. They are imported when they are
first used: the command line should start fast.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sslsniff.core.errors import CaptureFileError, SslsniffError
    from sslsniff.core.losses import LossCause
    from sslsniff.core.model import (
        Address,
        Body,
        Chunk,
        Connection,
        Direction,
        Exchange,
        Request,
        Response,
    )
    from sslsniff.core.process import Process
    from sslsniff.decoders.messages import Side
    from sslsniff.library import decode

__version__ = "0.2.0"

__all__ = [
    "Address",
    "Body",
    "CaptureFileError",
    "Chunk",
    "Connection",
    "Direction",
    "Exchange",
    "LossCause",
    "Process",
    "Request",
    "Response",
    "Side",
    "SslsniffError",
    "decode",
]


def __getattr__(name: str) -> object:
    """Import what the library has when it is asked for (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    homes = map(import_module, ("sslsniff.library", "sslsniff.core.model", "sslsniff.core.errors"))
    return next(vars(home)[name] for home in homes if name in vars(home))
