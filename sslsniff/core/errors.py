"""Errors that a user can meet. Each names the fact and the remedy; only ``cli`` prints them."""

NO_TIME = "allow more time with --end-within SECONDS"
"""The remedy where a capture had too little time at its end."""

NO_READER = "an output is incomplete, as nobody reads it any more"


class SslsniffError(Exception):
    """An error that the user reads in one line: the fact, then the remedy.

    ``fact`` says what is wrong, ``remedy`` what to do about it. Both are sentence
    fragments without a final full stop.
    """

    def __init__(self, fact: str, remedy: str) -> None:
        super().__init__(f"{fact}: {remedy}")
        self.fact = fact
        self.remedy = remedy


class PrivilegeError(SslsniffError):
    """A capability or root is missing."""


class KernelError(SslsniffError):
    """The kernel cannot do what is needed, or refused it."""


class LoaderError(SslsniffError):
    """A part of the BPF loaders (libbpf, bcc, kernel headers, the object) is missing or broken."""


class TargetError(SslsniffError):
    """A process, program or library to watch does not exist or cannot be probed."""


class ElfError(TargetError):
    """A file is not a readable ELF file, or has not what is needed from it."""


class OutputError(SslsniffError):
    """An output cannot be created or written."""


class CaptureFileError(SslsniffError):
    """A file is no capture file, or of a kind that cannot be read."""


class ConfigurationError(SslsniffError):
    """The file of ``sslsniff agent`` is wrong."""


class PricesError(SslsniffError):
    """A file of prices of models is wrong."""


class KafkaError(SslsniffError):
    """Kafka cannot be reached, or its settings are wrong."""


class SchemaError(SslsniffError):
    """A schema of protobuf messages cannot be read."""


class FilterError(SslsniffError):
    """The filter ``expression`` is wrong at the character with index ``position``."""

    def __init__(self, fact: str, remedy: str, expression: str, position: int) -> None:
        super().__init__(fact, remedy)
        self.expression = expression
        self.position = position


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number and what it counts: ``1 call``, ``20 calls``; ``plural`` if no ``s`` does.

    ``noun`` may go on: ``counted(n, "file is not watched", "files are not watched")``.
    """
    return f"{number} {_agreeing(number, noun, plural)}"


def grouped(number: int, noun: str, plural: str | None = None) -> str:
    """Return what ``counted`` does, with separators between thousands: ``2,000 calls``."""
    return f"{number:,} {_agreeing(number, noun, plural)}"


def _agreeing(number: int, noun: str, plural: str | None) -> str:
    return noun if number == 1 else plural or noun + "s"
