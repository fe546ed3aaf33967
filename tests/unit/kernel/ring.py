"""Records in memory, as the kernel lays them out in its ring buffer."""

from sslsniff.core.ring_records import BUSY, DISCARDED, PADDING_BYTES, Records


def laid_out(
    records: list[bytes], *, discarded: int | None = None, busy: int | None = None
) -> Records:
    """Return them to be read; the one with index ``discarded`` was, ``busy`` is not whole yet."""
    flags = {discarded: DISCARDED, busy: BUSY}
    raw = b"".join(
        (len(record) | flags.get(number, 0)).to_bytes(8, "little")
        + record
        + bytes(-len(record) % 8)
        for number, record in enumerate(records)
    )
    return Records(memoryview(raw + bytes(PADDING_BYTES)), 0, len(raw))
