"""Options: which secrets are blanked."""

from typing import TYPE_CHECKING

from sslsniff.settings import values
from sslsniff.settings.option import flag, repeated

if TYPE_CHECKING:
    from collections.abc import Sequence

    import regex

    from sslsniff.settings.option import Option

REDACT = flag(
    "--redact",
    "blank credentials in all output, with what cannot be looked into (docs/redact.md)",
    is_usual=True,
)
PATTERNS: "Option[Sequence[regex.Pattern[bytes]]]" = repeated(
    "--redact-pattern",
    values.bytes_pattern,
    "RE",
    "blank what this regular expression matches, too; (?P<NAME>...) names it (may be repeated)",
    setting=("redact", "patterns"),
)
NO_REDACT = flag(
    "--no-redact",
    "send what --otlp, --kafka and --parquet s3://... send as it was captured",
)
