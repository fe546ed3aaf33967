"""Says what of a capture file is not shown, and why."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from sslsniff.core.errors import counted


@dataclass(slots=True)
class NotShown:
    """What of a capture file is not shown, and why."""

    is_cut_off: bool = False
    odd_times: int = 0
    packets: Counter[str] = field(default_factory=Counter)
    """How many were not read, by what they have."""
    late_bytes: int = 0
    encrypted: int = 0
    """Connections."""
    has_keys: bool = False
    """Whether the file has secrets of TLS connections, as one of ``--packets`` has."""

    def add(self, other: "NotShown") -> None:
        """Add what of another share is not shown."""
        self.is_cut_off |= other.is_cut_off
        self.odd_times += other.odd_times
        self.packets += other.packets
        self.late_bytes += other.late_bytes
        self.encrypted += other.encrypted
        self.has_keys |= other.has_keys

    def sentences(self, name: str) -> Iterator[str]:
        """Yield a sentence for each reason; ``name``: that of the file."""
        if self.is_cut_off:
            yield f"{name} is cut off or damaged: all before that was read"
        if self.odd_times:
            yield (
                f"packets with times before 1970 or after 9999: {self.odd_times};"
                " they are shown at the nearest time that can be shown"
            )
        for what, count in self.packets.items():
            yield f"packets that were not read: {count}, {what}"
        if self.late_bytes:
            late = counted(self.late_bytes, "byte")
            yield f"{late} came after the end of their connections: not shown"
        if self.encrypted and not self.has_keys:
            yield (
                f"encrypted connections: {self.encrypted};"
                " a network capture has no plaintext of them"
            )
        elif self.has_keys:
            number = f": {self.encrypted}" if self.encrypted else ""
            yield (
                f"encrypted connections{number}; {name} has keys of them:"
                " Wireshark opens it decrypted"
            )
