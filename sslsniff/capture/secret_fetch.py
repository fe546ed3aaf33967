"""Makes the steps that fetch a secret from a call, and reads what they fetched."""

import re
import struct

from sslsniff.core.logged_secret import RANDOM_BYTES, LoggedSecret
from sslsniff.fetching.fetch import Fetch
from sslsniff.fetching.fetch_steps import FetchStep, StepKind
from sslsniff.matching.probe_set import KeyLogPlace

_LABEL_BYTES = 40
_LABEL = re.compile(rb"[A-Z][A-Z0-9_]+")
_MOST_SECRET_BYTES = 64
"""The longest hash of a cipher suite is SHA-384; a master secret has 48 bytes, too."""

_DATA = struct.Struct(f"<{_LABEL_BYTES}s{RANDOM_BYTES}sQ{_MOST_SECRET_BYTES}s")
_RANDOM_AT = _LABEL_BYTES
_SIZE_AT = _RANDOM_AT + RANDOM_BYTES
_SECRET_AT = _SIZE_AT + 8


def fetch_secret(place: KeyLogPlace) -> Fetch:
    """Return the steps that fetch a secret with its label and its client random."""
    size = place.label_size
    copy = StepKind.COPY_TEXT if size is None else StepKind.COPY_SIZED
    steps = (
        *place.label.steps(),
        *(size.steps() if size is not None else ()),
        FetchStep(copy, _LABEL_BYTES, 0, 0),
        *place.random.steps(),
        FetchStep(StepKind.COPY, RANDOM_BYTES, _RANDOM_AT, 1),
        *place.size.steps(),
        FetchStep(StepKind.STORE, 0, _SIZE_AT, 2),
        *place.secret.steps(),
        *place.size.steps(),
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
    if not 0 < size <= _MOST_SECRET_BYTES or not _LABEL.fullmatch(name):
        return None
    return LoggedSecret(name.decode("ascii"), random, secret[:size])
