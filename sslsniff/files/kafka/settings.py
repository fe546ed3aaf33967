"""Reads the settings of librdkafka from the command line and a file: how to reach Kafka."""

from pathlib import Path
from typing import Any

from sslsniff.core.errors import KafkaError

_RESERVED = frozenset(
    (
        "bootstrap.servers",
        "group.id",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "on_delivery",
    )
)
"""What options say, or what must not be otherwise."""


def settings(brokers: str, file: str | None) -> dict[str, Any]:
    """Return the settings for ``brokers`` with those of ``file``, a line ``NAME=VALUE`` for each.

    Raises ``KafkaError``.
    """
    found: dict[str, Any] = {"bootstrap.servers": brokers}
    if file is None:
        return found
    try:
        lines = Path(file).read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise KafkaError(f"cannot read {file}: {reason}", "name a file of properties") from None
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        name, separator, value = (part.strip() for part in text.partition("="))
        if not separator or not name:
            raise KafkaError(f"{file}, line {number}: no NAME=VALUE", "write one setting a line")
        if name in _RESERVED:
            raise KafkaError(
                f"{file}, line {number}: {name} is not up to this file", "leave it out"
            )
        found[name] = value
    return found
