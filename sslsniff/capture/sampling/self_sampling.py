"""Leaves out connections while more plaintext comes than is decoded: ``--sample auto``.

Without it a full ring loses bytes of all connections, and hardly any exchange is whole. With
``--most-cpu`` connections are also left out while more CPU is used than allowed.
"""

import math
from collections.abc import Callable, Iterable

from sslsniff.capture.sampling.cpu_limit import CpuLimit

SAMPLED_BATCH_SHARE = 64
"""Of the ring: after each batch it chooses anew, every 20 ms or so."""
ALL = (1 << 32) - 1
"""The largest hash: all connections are captured."""

_WORD = (1 << 64) - 1
_KEPT = {5 / 8: 1 / 2, 3 / 8: 3 / 4}
"""The share of the connections that is kept, by that of the room for records that is full."""
_CALM = 1 / 16
_NEXT_S = 0.1
"""Settling time after a change: before it is over, more are left out only if the backlog grows."""
_CALM_S = 10.0


def sampling_hash(connection: int) -> int:
    """Return the hash by which connections are chosen where they are seen (``bpf/scatter.h``)."""
    value = connection
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        value = (value ^ value >> 33) * factor & _WORD
    return (value ^ value >> 33) & ALL


def largest_hash(share: float) -> int:
    """Return the largest ``sampling_hash`` of a share, above 0, of all connections."""
    return math.ceil(share * (1 << 32)) - 1


class SelfSampling:
    """Chooses the largest ``sampling_hash`` of the connections that are captured.

    ``room_bytes``: how many bytes of records may wait. ``apply`` gets each new choice. ``cpu``:
    None if there is no limit.
    """

    def __init__(
        self,
        room_bytes: int,
        apply: Callable[[int], None],
        note: Callable[[str], None],
        cpu: CpuLimit | None = None,
    ) -> None:
        self._room_bytes, self._apply, self._note, self._cpu = room_bytes, apply, note, cpu
        self._most = ALL
        self._next_s = 0.0
        self._waited_bytes = 0  # at the last choice
        self._calm_from_s = 0.0

    def update(self, waiting_bytes: int, connections: Iterable[int], now_s: float) -> None:
        """Choose anew, by the bytes that wait and the numbers of the open connections."""
        share = waiting_bytes / self._room_bytes
        if self._cpu is not None:
            kept = self._cpu.kept(now_s)
            if kept < 1:
                used = f"{100 * self._cpu.share:.0f} % of a processor used, more than allowed"
                self._keep(kept, connections, used)
        if share > _CALM or (self._cpu is not None and self._cpu.is_near):
            self._calm_from_s = now_s
        kept = next((kept for full, kept in _KEPT.items() if share > full), 1)
        if kept == 1:
            self._waited_bytes = 0
        elif now_s >= self._next_s and waiting_bytes > self._waited_bytes:
            self._next_s, self._waited_bytes = now_s + _NEXT_S, waiting_bytes
            self._keep(kept, connections, "more traffic than can be decoded")
        if self._most < ALL and now_s - self._calm_from_s >= _CALM_S:
            self._calm_from_s = now_s
            self._choose(min(ALL, 2 * self._most + 1))
            self._note(f"less traffic: {self._percent()} of new connections are shown from now on")

    @property
    def kept_share(self) -> float:
        """The share of new connections that is captured."""
        return self._most / ALL

    def _keep(self, kept: float, connections: Iterable[int], reason: str) -> None:
        """Keep a share of the connections that are open, and of later ones; the last one always."""
        hashes = sorted(map(sampling_hash, connections))
        shown = [each for each in hashes if each <= self._most]
        count = math.ceil(kept * len(shown))
        most = shown[count - 1] if shown else int(kept * self._most)
        if most < self._most:
            self._choose(most)
            self._note(
                f"{reason}: from now on {count} of {len(shown)} connections"
                f" are shown, and {self._percent()} of new ones"
            )

    def _choose(self, most: int) -> None:
        self._most = most
        self._apply(most)

    def _percent(self) -> str:
        return f"{100 * self.kept_share:.3g} %"
