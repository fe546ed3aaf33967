"""Where the decoders differ from a corpus on purpose, each with the reason."""

LLHTTP: dict[str, str] = {}
CURL: dict[str, str] = {}
