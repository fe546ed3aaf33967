"""What passes between clients and Redis, and what a decoder makes of it."""

from tests.unit.decoders.databases.database_wires import Decoded, resp
from tests.unit.decoders.wires import C, Step

GET = resp(b"GET", b"user:1")
ADA = b"$3\r\nAda\r\n"
GOT = Decoded("GET", "GET user:1")
QUEUED = b"+QUEUED\r\n"


def asks(lines: str) -> Step:
    """The client sends commands, which ``;`` separates."""
    return C, b"".join(resp(*line.encode().split()) for line in lines.split(";"))


def plain(lines: str) -> list[Decoded]:
    """Commands that succeeded, with no number of rows."""
    return [Decoded(line.split()[0], line) for line in lines.split(";")]


def subscribed(*words: str, count: int, kind: bytes = b"*") -> bytes:
    """An answer in RESP 2, or pushed in RESP 3."""
    texts = b"".join(b"$%d\r\n%b\r\n" % (len(each), each.encode()) for each in words)
    return b"%b%d\r\n%b:%d\r\n" % (kind, len(words) + 1, texts, count)
