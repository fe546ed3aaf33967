"""HTTP/2 frames (RFC 9113 sections 4 and 6): names, checks, and the content of payloads.

Pure functions and tables; nothing here keeps state.
"""

import struct
from collections.abc import Callable
from typing import Any, NamedTuple

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADER_SIZE = 9
DEFAULT_MAX_FRAME = 16384
PREVIEW = 256
"""Bytes of data in the details of a frame."""

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS = 0, 1, 2, 3, 4
PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 5, 6, 7, 8, 9
ALTSVC, ORIGIN, PRIORITY_UPDATE = 0x0A, 0x0C, 0x10

END_STREAM = ACK = 0x01
END_HEADERS = 0x04
PADDED = 0x08
PRIORITY_FLAG = 0x20

TYPES = {
    DATA: "DATA",
    HEADERS: "HEADERS",
    PRIORITY: "PRIORITY",
    RST_STREAM: "RST_STREAM",
    SETTINGS: "SETTINGS",
    PUSH_PROMISE: "PUSH_PROMISE",
    PING: "PING",
    GOAWAY: "GOAWAY",
    WINDOW_UPDATE: "WINDOW_UPDATE",
    CONTINUATION: "CONTINUATION",
    ALTSVC: "ALTSVC",  # RFC 7838 section 4
    ORIGIN: "ORIGIN",  # RFC 8336 section 2
    PRIORITY_UPDATE: "PRIORITY_UPDATE",  # RFC 9218 section 7.1
}

_FLAGS = {
    DATA: ((END_STREAM, "END_STREAM"), (PADDED, "PADDED")),
    HEADERS: (
        (END_STREAM, "END_STREAM"),
        (END_HEADERS, "END_HEADERS"),
        (PADDED, "PADDED"),
        (PRIORITY_FLAG, "PRIORITY"),
    ),
    SETTINGS: ((ACK, "ACK"),),
    PUSH_PROMISE: ((END_HEADERS, "END_HEADERS"), (PADDED, "PADDED")),
    PING: ((ACK, "ACK"),),
    CONTINUATION: ((END_HEADERS, "END_HEADERS"),),
}

SETTINGS_HEADER_TABLE_SIZE = 1
SETTINGS_MAX_FRAME_SIZE = 5
_SETTINGS = {
    SETTINGS_HEADER_TABLE_SIZE: "HEADER_TABLE_SIZE",
    2: "ENABLE_PUSH",
    3: "MAX_CONCURRENT_STREAMS",
    4: "INITIAL_WINDOW_SIZE",
    SETTINGS_MAX_FRAME_SIZE: "MAX_FRAME_SIZE",
    6: "MAX_HEADER_LIST_SIZE",
    8: "ENABLE_CONNECT_PROTOCOL",  # RFC 8441 section 3
    9: "NO_RFC7540_PRIORITIES",  # RFC 9218 section 2.1
}

_ERRORS = (
    "NO_ERROR",
    "PROTOCOL_ERROR",
    "INTERNAL_ERROR",
    "FLOW_CONTROL_ERROR",
    "SETTINGS_TIMEOUT",
    "STREAM_CLOSED",
    "FRAME_SIZE_ERROR",
    "REFUSED_STREAM",
    "CANCEL",
    "COMPRESSION_ERROR",
    "CONNECT_ERROR",
    "ENHANCE_YOUR_CALM",
    "INADEQUATE_SECURITY",
    "HTTP_1_1_REQUIRED",
)

_MAX_LENGTH = 0xFFFFFF


class FrameRule(NamedTuple):
    """The rule for a frame's header; ``on_stream`` None: it may be on a stream or on stream 0.

    Its length is from ``least`` to ``most``, and a multiple of ``unit``, all in bytes.
    """

    on_stream: bool | None
    least: int = 0
    most: int = _MAX_LENGTH
    unit: int = 1


# The MUSTs of RFC 9113 section 6. Other types are extensions.
_RULES = {
    DATA: FrameRule(True),
    HEADERS: FrameRule(True),
    PRIORITY: FrameRule(True, 5, 5),
    RST_STREAM: FrameRule(True, 4, 4),
    SETTINGS: FrameRule(False, unit=6),
    PUSH_PROMISE: FrameRule(True, 4),
    PING: FrameRule(False, 8, 8),
    GOAWAY: FrameRule(False, 8),
    WINDOW_UPDATE: FrameRule(None, 4, 4),
    CONTINUATION: FrameRule(True),
}
# An acknowledgement is empty (section 6.5).
_SETTINGS_ACK = FrameRule(False, 0, 0)

_U32 = struct.Struct(">I")
_SETTING = struct.Struct(">HI")
_HEADER = struct.Struct(">IBI")
unpack_header = _HEADER.unpack_from
"""Unpack ``length << 8 | type``, flags and stream (with its reserved bit)."""


def type_name(kind: int) -> str:
    """Return a frame type's name, as a number where it has none."""
    return TYPES.get(kind) or f"0x{kind:02x}"


def flag_names(kind: int, flags: int) -> list[str]:
    """Return the names of the flags that are set; the unknown ones as one number."""
    names = []
    for bit, name in _FLAGS.get(kind, ()):
        if flags & bit:
            names.append(name)
            flags &= ~bit
    if flags:
        names.append(f"0x{flags:02x}")
    return names


def error_name(code: int) -> str:
    """Return an error code's name (section 7), as a number where it has none."""
    return _ERRORS[code] if code < len(_ERRORS) else f"0x{code:x}"


def setting_name(identifier: int) -> str:
    """Return a setting's name (section 6.5.2), as a number where it has none."""
    return _SETTINGS.get(identifier) or f"0x{identifier:x}"


def header_fault(kind: int, flags: int, stream: int, length: int) -> str | None:
    """Return what is wrong with a frame's header; None if it is valid."""
    if kind <= HEADERS and stream:
        return None  # nearly all frames
    rule = _RULES.get(kind) if kind != SETTINGS or not flags & ACK else _SETTINGS_ACK
    if rule is None:
        return None
    on_stream, least, most, unit = rule
    if on_stream is not None and bool(stream) is not on_stream:
        return f"{TYPES[kind]} frame on stream {stream}"
    if not least <= length <= most or length % unit:
        return f"{TYPES[kind]} frame of {length} bytes"
    return None


def payload_fault(kind: int, payload: bytes) -> str | None:
    """Return what is wrong with a frame's payload (section 6.9); None if it is valid."""
    if kind == WINDOW_UPDATE and not read_u31(payload, 0):
        return "WINDOW_UPDATE frame with an increment of 0"
    return None


def strip(kind: int, flags: int, payload: bytes) -> bytes | None:
    """Return a HEADERS, PUSH_PROMISE or DATA payload without padding and prefix fields.

    None if the padding is longer than the payload (section 6.1).
    """
    if kind != PUSH_PROMISE and not flags & (PADDED | PRIORITY_FLAG):
        return payload
    start, stop = 0, len(payload)
    if flags & PADDED:
        if not stop:
            return None
        start, stop = 1, stop - payload[0]
    if kind == HEADERS and flags & PRIORITY_FLAG:
        start += 5
    elif kind == PUSH_PROMISE:
        start += 4
    return payload[start:stop] if start <= stop else None


def promised_stream(flags: int, payload: bytes) -> int:
    """Return the stream that a PUSH_PROMISE reserves (section 6.6); 0 if the payload is cut."""
    at = 1 if flags & PADDED else 0
    return read_u31(payload, at) if len(payload) >= at + 4 else 0


def read_u31(payload: bytes, at: int) -> int:
    """Read a 31-bit number; the reserved first bit of the 32 is ignored."""
    return int(_U32.unpack_from(payload, at)[0]) & 0x7FFFFFFF


def read_error(payload: bytes, at: int) -> str:
    """Read an error code; return its name."""
    return error_name(_U32.unpack_from(payload, at)[0])


def read_settings(payload: bytes) -> list[tuple[int, int]]:
    """Read a SETTINGS payload (section 6.5.1)."""
    whole = len(payload) - len(payload) % _SETTING.size
    return list(_SETTING.iter_unpack(payload[:whole]))


def describe(kind: int, flags: int, payload: bytes) -> dict[str, Any]:
    """Return the content of a frame with a valid header, under the names of the JSON contract."""
    details = _DESCRIBERS.get(kind, _describe_data)(flags, payload)
    if flags & PADDED and kind in (DATA, HEADERS, PUSH_PROMISE) and payload:
        details["padding"] = payload[0]
    return details


def _describe_data(flags: int, payload: bytes) -> dict[str, Any]:
    return {"data": payload[:PREVIEW]}


def _describe_stripped(flags: int, payload: bytes) -> dict[str, Any]:
    return {"data": (strip(DATA, flags, payload) or b"")[:PREVIEW]}


def _describe_priority(flags: int, payload: bytes, at: int = 0) -> dict[str, Any]:
    depends_on = _U32.unpack_from(payload, at)[0]
    return {
        "depends_on": depends_on & 0x7FFFFFFF,
        "exclusive": bool(depends_on >> 31),
        "weight": payload[at + 4] + 1,  # section 5.3.2 of RFC 7540: 1 to 256
    }


def _describe_headers(flags: int, payload: bytes) -> dict[str, Any]:
    at = 1 if flags & PADDED else 0
    if flags & PRIORITY_FLAG and len(payload) >= at + 5:
        return _describe_priority(flags, payload, at)
    return {}


def _describe_reset(flags: int, payload: bytes) -> dict[str, Any]:
    return {"error_code": read_error(payload, 0)}


def _describe_settings(flags: int, payload: bytes) -> dict[str, Any]:
    return {"settings": {setting_name(key): value for key, value in read_settings(payload)}}


def _describe_promise(flags: int, payload: bytes) -> dict[str, Any]:
    return {"promised_stream": promised_stream(flags, payload)}


def _describe_goaway(flags: int, payload: bytes) -> dict[str, Any]:
    return {
        "last_stream": read_u31(payload, 0),
        "error_code": read_error(payload, 4),
        "data": payload[8 : 8 + PREVIEW],
    }


def _describe_window(flags: int, payload: bytes) -> dict[str, Any]:
    return {"increment": read_u31(payload, 0)}


def _describe_nothing(flags: int, payload: bytes) -> dict[str, Any]:
    return {}


def _describe_priority_update(flags: int, payload: bytes) -> dict[str, Any]:
    if len(payload) < 4:
        return {"data": payload}
    priority = payload[4 : 4 + PREVIEW].decode("latin-1")
    return {"prioritized_stream": read_u31(payload, 0), "priority": priority}


_DESCRIBERS: dict[int, Callable[[int, bytes], dict[str, Any]]] = {
    DATA: _describe_stripped,
    HEADERS: _describe_headers,
    PRIORITY: _describe_priority,
    RST_STREAM: _describe_reset,
    SETTINGS: _describe_settings,
    PUSH_PROMISE: _describe_promise,
    GOAWAY: _describe_goaway,
    WINDOW_UPDATE: _describe_window,
    CONTINUATION: _describe_nothing,
    PRIORITY_UPDATE: _describe_priority_update,
}
