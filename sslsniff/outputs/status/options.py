"""``--status-to``."""

from sslsniff.settings import values
from sslsniff.settings.option import value

STATUS_TO = value("--status-to", values.inherited_file, "N", "")
"""The agent gives it to the capture that it starts."""
