"""Bodies in content codings that are made to take long, by the size that is asked for.

As a program it prints, as JSON, what memory each takes: ``python -m tests.unit.decoders.codings``.
A program of its own, as windows are memory of libraries in C, which tracemalloc does not see.
"""

import gzip
import json
import os
import random
import zlib
from collections.abc import Callable
from pathlib import Path

import brotli
import zstandard

from sslsniff.decoders.content import codings
from sslsniff.decoders.messages import Headers

MEMBER = gzip.compress(b"")
_GZIP_HEAD = b"\x1f\x8b\x08" + bytes(6) + b"\xff"
_STORED = b"\0\0\0\xff\xff"  # an empty block (RFC 1951 section 3.2.4)
_DAMAGE = b"\x07"  # a block of a type that is none
_NOISE = random.Random(1).randbytes(4 << 20)
_TEXT = b"".join(b"%d bottles of beer on the wall\n" % number for number in range(200_000))
_SKIPPABLE = b"\x50\x2a\x4d\x18" + bytes(4)  # RFC 8878 section 3.1.2
_FRAME = zstandard.compress(b"")
# Magic number, no flags, a window of 8 MiB.
_ZSTD_HEAD = b"\x28\xb5\x2f\xfd\0\x68"
_REPEATED = b"\x02\0\x10\x61"  # a block of 128 KiB of one byte (section 3.1.1.2)


def _repeated(unit: bytes, before: bytes = b"", behind: bytes = b"") -> Callable[[int], bytes]:
    return lambda size: before + unit * (size // len(unit)) + behind


def _tiny_brotli_blocks(size: int) -> bytes:
    coder = brotli.Compressor(quality=1)
    made = bytearray()
    at = 0
    while len(made) < size:
        made += coder.process(_NOISE[at : at + 3]) + coder.flush()
        at = (at + 3) % len(_NOISE)
    made += coder.finish()
    return bytes(made)


def _tiny_zstd_blocks(size: int) -> bytes:
    coder = zstandard.ZstdCompressor(level=1).compressobj()
    made = bytearray()
    at = 0
    while len(made) < size:
        made += coder.compress(_TEXT[at : at + 40]) + coder.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
        at = (at + 40) % len(_TEXT)
    return bytes(made)


def _tables(size: int) -> bytes:
    """Make blocks that are hardly more than the tables of their Huffman codes."""
    coder = zlib.compressobj(wbits=-15)
    made = bytearray()
    at = 0
    while len(made) < size:
        made += coder.compress(_TEXT[at : at + 200]) + coder.flush(zlib.Z_FULL_FLUSH)
        at = (at + 200) % len(_TEXT)
    return bytes(made)


BODIES: dict[str, tuple[str, Callable[[int], bytes]]] = {
    "gzip of empty members": ("gzip", _repeated(MEMBER)),
    "gzip of members of a byte": ("gzip", _repeated(gzip.compress(b"a"))),
    "gzip of members, then damage": ("gzip", _repeated(MEMBER, behind=_GZIP_HEAD + _DAMAGE)),
    "gzip, then other bytes": ("gzip", _repeated(b"a", MEMBER)),
    "gzip of empty blocks": ("gzip", _repeated(_STORED, _GZIP_HEAD)),
    "gzip of empty blocks, then damage": ("gzip", _repeated(_STORED, _GZIP_HEAD, _DAMAGE)),
    "gzip of tables": ("gzip", lambda size: _GZIP_HEAD + _tables(size)),
    "deflate of empty blocks, then damage": ("deflate", _repeated(_STORED, behind=_DAMAGE)),
    "deflate of noise": ("deflate", lambda size: zlib.compress(_NOISE[:size], 0)),
    "br of empty blocks": ("br", _repeated(b"\x06", b"\x0c")),
    "br of empty blocks, then damage": ("br", _repeated(b"\x06", b"\x0c", b"\xff\xff")),
    "br of tiny blocks": ("br", _tiny_brotli_blocks),
    "br of noise": ("br", lambda size: brotli.compress(_NOISE[:size], quality=0)),
    "zstd of empty frames": ("zstd", _repeated(_FRAME)),
    "zstd of skippable frames": ("zstd", _repeated(_SKIPPABLE)),
    "zstd of empty blocks": ("zstd", _repeated(bytes(3), _ZSTD_HEAD)),
    "zstd of windows": ("zstd", _repeated(_ZSTD_HEAD + b"\x09\0\0a" + _FRAME)),
    "zstd of tiny blocks, then damage": ("zstd", lambda size: _tiny_zstd_blocks(size) + b"\x07"),
    "zstd of one byte": ("zstd", _repeated(_REPEATED, _ZSTD_HEAD)),
    "gzip of gzip of members": (
        "gzip, gzip, gzip",
        lambda size: gzip.compress(gzip.compress(MEMBER * (size // 20), 0), 0),
    ),
    "members in members": (
        "gzip, gzip",
        lambda size: b"".join(gzip.compress(MEMBER[at % 20 :][:1], 1) for at in range(size // 21)),
    ),
    "a bomb": ("gzip", lambda size: gzip.compress(bytes(1000 * size), 6)),
    "a bomb in br": ("br", lambda size: brotli.compress(bytes(1000 * size), quality=1)),
    "text": ("br", lambda size: brotli.compress(_TEXT[:size], quality=5)),
    "a body in more codings than one has": (", ".join(["gzip"] * 200), _repeated(MEMBER)),
}


def decode(coding: str, body: bytes, size: int = 1 << 30) -> tuple[int, str | None]:
    """Undo it in pieces of ``size`` bytes; return how many bytes it gave, and the fault."""
    decoder = codings.ContentDecoder(Headers([("content-encoding", coding)]), max_bytes=16 << 20)
    given = 0
    for start in range(0, len(body), size):
        given += sum(len(piece) for piece in decoder.feed(body[start : start + size]))
    return given, decoder.error


def _peak_bytes() -> int:
    [line] = [
        line for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line
    ]
    return int(line.split()[1]) << 10


def _measured(coding: str, body: bytes) -> tuple[int, int]:
    """Return how many bytes a body gives, and the most memory that it takes, in a child."""
    told, tell = os.pipe()
    child = os.fork()
    if not child:
        Path("/proc/self/clear_refs").write_text("5")  # man 5 proc: the peak begins anew
        before = _peak_bytes()
        decoded = codings.decode(body, Headers([("content-encoding", coding)]))
        os.write(tell, b"%d %d" % (len(decoded.data), _peak_bytes() - before))
        os._exit(0)
    os.close(tell)
    os.waitpid(child, 0)
    with os.fdopen(told, "rb") as answer:
        output, peak = map(int, answer.read().split())
    return output, peak


def main(size: int = 1 << 20) -> None:
    """Print for each body its size, that of its content, and the most memory that it took."""
    made = {}
    for name, (coding, make) in BODIES.items():
        body = make(size if "bomb" not in name else size // 64)
        made[name] = len(body), *_measured(coding, body)
    print(json.dumps(made))


if __name__ == "__main__":
    main()
