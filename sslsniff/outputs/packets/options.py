"""``--packets``: a file with the packets of connections, and their secrets."""

from sslsniff.settings import values
from sslsniff.settings.option import Group, value

PACKETS = value(
    "--packets",
    values.name,
    "FILE",
    "write the packets of new connections, encrypted as they are, and their secrets, as"
    " one pcapng (docs/keylog.md)",
    group=Group.KEYS,
    needs_probes=True,
)
