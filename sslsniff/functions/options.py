"""Which calls are shown beside exchanges: ``--calls``."""

from sslsniff.settings import values
from sslsniff.settings.option import Group, repeated

CALLS = repeated(
    "--calls",
    values.function_pattern,
    "PATTERN",
    "with --pid or COMMAND: under each exchange, the calls of functions that served it,"
    " whose names match this regular expression (docs/trace.md; may be repeated)",
    group=Group.CALLS,
    needs_probes=True,
)
