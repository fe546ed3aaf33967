"""Options: what lines show, for people and as JSON."""

from sslsniff.destinations.options import OUTPUT
from sslsniff.request_tree.options import TREE
from sslsniff.settings import values
from sslsniff.settings.asked import Asked
from sslsniff.settings.option import counted, flag, repeated, value

VERBOSE = counted(
    "--verbose",
    "also headers, and nothing cut; -vv: also bodies",
    short="-v",
    is_usual=True,
)
JSON = flag("--json", "JSON lines (docs/json.md)", setting=("lines", "json"), is_usual=True)
CHUNKS = flag("--chunks", "JSON lines with raw plaintext, too")
FRAMES = flag("--frames", "HTTP/2 frames as they come, and what flow control does", is_usual=True)
STREAM = repeated(
    "--stream",
    values.stream_number,
    "N",
    "only this HTTP/2 stream of each connection; 0: its own frames (may be repeated)",
)
PROTO_SET = value(
    "--proto-set",
    values.name,
    "FILE",
    "name the fields of gRPC messages: a FileDescriptorSet, from protoc",
)
HEXDUMP = flag("--hexdump", "raw plaintext in hexadecimal")
PRINT = flag("--print", "with one of these files, show exchanges as well")
QUIET = flag("--quiet", "no exchanges: only what comes at the end", short="-q")


def hexdump_is_text(asked: Asked) -> str | None:
    """Return what is wrong if plaintext is wanted as text and as JSON."""
    if asked[HEXDUMP] and (asked[JSON] or asked[CHUNKS]):
        return "--hexdump is text: leave out --json, or use --chunks for plaintext in JSON"
    return None


SHOWN = (VERBOSE, JSON, CHUNKS, FRAMES, STREAM, PROTO_SET, HEXDUMP)
ASKED_FOR = (JSON, FRAMES, CHUNKS, HEXDUMP, VERBOSE, OUTPUT, PRINT, TREE)
"""Options that ask for lines beside other outputs."""
