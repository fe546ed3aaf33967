"""Recognises WebSocket in bytes of any protocol, where a capture joined in the middle."""

import re

from sslsniff.decoders.chain import ChainRule
from sslsniff.decoders.inner.websocket import chain_rule, read_header
from sslsniff.decoders.messages import Side

_PROOF_FRAMES = {Side.CLIENT: 8, Side.SERVER: 16}
"""How many frames of a side prove that bytes are of WebSocket."""
_PROOF_BYTES = 4 << 10  # the longest of them
_NO_TEXT = re.compile(r"[\0-\x08\x0b\x0c\x0e-\x1f\x7f]")
_TEXT, _PING = 1, 9  # opcodes (RFC 6455 section 5.2); those from 9 on are of pings and pongs


def proof_rule(side: Side) -> ChainRule:
    """Return how to recognise frames of ``side`` in bytes that may be of any protocol.

    A server's must be whole messages of text, or control frames: a length before binary data occurs
    everywhere, as 82 and a length stand before each name in a TLS certificate.
    """
    if side is Side.CLIENT:
        return chain_rule(
            side, compressed=False, enough=_PROOF_FRAMES[side], unit_bytes=_PROOF_BYTES
        )
    first = re.compile(rb"(?=[\x81\x89\x8a][\x01-\x7f])")
    return ChainRule(first, _text_unit, _PROOF_FRAMES[side], _PROOF_BYTES)


def _text_unit(data: bytes | bytearray, at: int, stop: int) -> int:
    header = read_header(data, at, stop)
    if isinstance(header, int):
        return -header
    if header is None or header.mask or not header.length or not header.final:
        return 0
    size = header.size + header.length
    if size > _PROOF_BYTES:
        return 0
    if header.opcode >= _PING:
        return size
    if header.opcode != _TEXT or header.compressed:
        return 0
    if stop - at < size:
        return -size
    try:
        text = data[at + header.size : at + size].decode()
    except UnicodeDecodeError:
        return 0
    return 0 if _NO_TEXT.search(text) else size
