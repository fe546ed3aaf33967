"""Options of all that is written."""

from sslsniff.settings import values
from sslsniff.settings.option import choice, flag, value

OUTPUT = value(
    "--output",
    values.name,
    "FILE",
    "write there (default: standard output; with COMMAND, standard error)",
    short="-o",
    is_usual=True,
)
FORCE = flag("--force", "overwrite output files")
COLOR = choice(
    "--color",
    ("auto", "always", "never"),
    "WHEN",
    "auto (default: on a terminal), always or never",
    default="auto",
)
END_WITHIN = value(
    "--end-within",
    values.seconds,
    "SECONDS",
    "how long an end by Ctrl-C or SIGTERM may take (default: 2; Ctrl-C: 2 since the last"
    " record that was decoded); what still waits then is lost",
    default=2,
)
MAX_BODY = value(
    "--max-body",
    values.size,
    "SIZE",
    "most bytes of a body that are kept for -vv, --json and --har (default: 16M)",
    default=16 << 20,
    setting=("limits", "body"),
)
