"""``--keylog``: a file with the secrets of connections."""

from sslsniff.settings import values
from sslsniff.settings.option import Group, value

KEYLOG = value(
    "--keylog",
    values.name,
    "FILE",
    "write the secrets of new connections, with which Wireshark decrypts their packets"
    " (docs/keylog.md)",
    group=Group.KEYS,
    needs_probes=True,
)
