"""Recognises WebSocket in bytes of any protocol, where a capture joined in the middle."""

import re
from collections.abc import Iterator

from sslsniff.decoders.chain import ChainRule
from sslsniff.decoders.inner.websocket import (
    HEADER_BYTES,
    FrameHeader,
    chain_rule,
    read_header,
    unmask,
)
from sslsniff.decoders.messages import Side

_CLIENT_FRAMES, _SERVER_FRAMES = 8, 16
"""How many frames of a side, one after another, may prove that bytes are of WebSocket."""
_PROOF_BYTES = 4 << 10  # the longest of them
_OTHER_MASK_BYTES = 24
"""How many of the 32 bytes of a client's eight masks differ at least; at random 30 do."""
_RUN_BYTES = 149
"""So many bytes that equal the one before them are two frames and a third one's mask.

Such frames have at most 72 bytes. Three masks of one value leave 21 different bytes in eight masks
at most, so no proof begins with such a run.
"""
# The bytes that may be the first and the second of a client's frame.
_IN_NO_RUN = b"(?!%b)" % b"|".join(
    rb"\x%02x{%d}" % (byte, _RUN_BYTES) for byte in b"\x81\x82\x88\x89\x8a\xc1\xc2"
)
_TELLING_TEXTS = 4
"""How many of a server's messages must be such as no other protocol's text after 81 and a length.

In DER, 81 is the tag of an address of e-mail in a certificate, and of much else.
"""
_JSON = re.compile(rb'[{[][^\0]*["\]}]')
_NO_TEXT = re.compile(r"[\0-\x08\x0b\x0c\x0e-\x1f\x7f]")
_CONTINUATION, _TEXT, _CLOSE, _PING = 0, 1, 8, 9  # opcodes (RFC 6455 section 5.2)


def proof_rule(side: Side) -> ChainRule:
    """Return how to recognise frames of ``side`` in bytes that may be of any protocol.

    A client's have masks, which are random. A server's must be whole messages of text, or pings: a
    length before binary data occurs everywhere, as 82 and a length stand before each name in a TLS
    certificate.
    """
    if side is Side.CLIENT:
        return chain_rule(
            side,
            enough=_CLIENT_FRAMES,
            unit_bytes=_PROOF_BYTES,
            proves=_has_random_masks,
            not_before=_IN_NO_RUN,
        )
    first = re.compile(rb"[\x81\x89\x8a](?=[\x01-\x7f])")
    return ChainRule(
        first, HEADER_BYTES, _text_unit, _SERVER_FRAMES, _PROOF_BYTES, _has_telling_texts
    )


def _headers(data: bytes | bytearray, at: int, stop: int) -> Iterator[tuple[FrameHeader, int]]:
    """Yield the headers of a chain's frames, each with the position where its frame ends."""
    while at < stop:
        header = read_header(data, at, stop)
        if not isinstance(header, FrameHeader):
            return
        at += header.size + header.length
        yield header, at


def _frames(data: bytes | bytearray, at: int, stop: int) -> Iterator[tuple[FrameHeader, bytes]]:
    """Yield the frames of a chain, each with its unmasked payload, as far as that is there."""
    for header, end in _headers(data, at, stop):
        payload = bytes(data[end - header.length : min(end, stop)])
        yield header, unmask(payload, header.mask, 0)


def _has_random_masks(data: bytes | bytearray, start: int, stop: int) -> bool:
    """Return whether the frames' masks differ, their text is text, and continuations continue."""
    if len(set(data[start:stop])) < _OTHER_MASK_BYTES:
        return False
    headers = [header for header, _ in _headers(data, start, stop)]
    if len({byte for header in headers for byte in header.mask}) < _OTHER_MASK_BYTES:
        return False
    continues: bool | None = None  # not known before the first frame
    for header, payload in _frames(data, start, stop):
        if header.opcode >= _CLOSE:
            continue
        if continues not in {None, header.opcode == _CONTINUATION}:
            return False
        continues = not header.final
        whole = header.final and not header.compressed and len(payload) == header.length
        if header.opcode == _TEXT and whole and _text(payload) is None:
            return False
    return True


def _has_telling_texts(data: bytes | bytearray, start: int, stop: int) -> bool:
    """Return whether enough messages are JSON, or so long that their length takes two more bytes.

    DER has such lengths, too, but not after 126, as WebSocket has (RFC 6455 section 5.2).
    """
    return (
        sum(
            header.opcode == _TEXT and (header.length > 125 or _JSON.fullmatch(payload) is not None)
            for header, payload in _frames(data, start, stop)
        )
        >= _TELLING_TEXTS
    )


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
    return 0 if _text(bytes(data[at + header.size : at + size])) is None else size


def _text(payload: bytes) -> str | None:
    """Return the payload as text; None if it is none."""
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        return None
    return None if _NO_TEXT.search(text) else text
