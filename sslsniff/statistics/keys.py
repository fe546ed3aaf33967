"""What exchanges can be grouped by. Every start imports this: nothing else is here."""

KEYS = (
    "host",
    "path",
    "comm",
    "pid",
    "role",
    "server",
    "sni",
    "status",
    "protocol",
    "method",
    "model",
    "error",
    "run",
    "raw_path",
    "secret",
)
"""The fields of an ``Outcome`` by which exchanges can be grouped (docs/statistics.md)."""

DEFAULT_KEYS = ("host", "method", "path")
"""What exchanges are grouped by, if nothing else is asked for."""
