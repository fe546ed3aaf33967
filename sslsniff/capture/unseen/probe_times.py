"""Decides by the times of its sends whether probes could see a TLS connection's plaintext.

The kernel looks at sockets from before the first probe is placed until the capture is stopped.
Where a process uses a library with probes, these miss:

- calls that returned before the library got its probes;
- a call that was under way then: the probe at its beginning was not hit. All later ones are seen.

What passed before the capture began is not missed. A library that is loaded later, by a process
that is not held, gets its probes a moment after that: what passes until then is missed.
"""

from enum import Enum, auto

from sslsniff.capture.handshakes.tls_evidence import data_ns
from sslsniff.core.events import NOTED_SENDS, TlsSocket, TlsStart

_CALL_NS = 1_000_000_000
"""A call is taken to return so long after its send at most, also on a busy machine."""


class Seen(Enum):
    """Whether probes could have seen the plaintext of a TLS connection.

    ``BEFORE``: as far as is known, it passed before the capture. ``TOO_EARLY``: it passed before
    the process's library got its probes.
    """

    POSSIBLE = auto()
    TOO_EARLY = auto()
    BEFORE = auto()


def seen(found: TlsSocket, began_ns: int, probed_ns: int | None) -> Seen:
    """Return whether probes could have seen the data of ``found``, of which some passed.

    ``began_ns``: when the capture began: its first probes were placed; 0: no process ran before.
    ``probed_ns``: when the last library of the process got its probes; None: it has none with
    probes; 0: unknown.
    """
    last_ns = data_ns(found)
    if probed_ns is None:  # beyond the sends that are noted, others may have followed
        is_before = last_ns < began_ns and len(found.sends) < NOTED_SENDS
        return Seen.BEFORE if is_before else Seen.POSSIBLE
    since_ns = max(began_ns, probed_ns)
    was_open = since_ns > 0 and (found.start is TlsStart.JOINED or found.time_ns < since_ns)
    if last_ns < since_ns + (_CALL_NS if was_open else 0):
        return Seen.TOO_EARLY if last_ns >= began_ns < probed_ns else Seen.BEFORE
    return Seen.POSSIBLE
