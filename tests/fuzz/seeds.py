"""Where each target's search begins."""

from sslsniff.core.events import EventKind
from sslsniff.core.handshakes import SocketEnding
from sslsniff.core.wire import CLOSED, DATA, ENDED
from tests.fuzz.debug_info_seeds import debug_info_seeds
from tests.unit.core.test_fast_path import addresses, opened
from tests.unit.decoders.databases import test_mysql, test_postgresql, test_redis
from tests.unit.decoders.databases.database_wires import MY_LOGIN, PG_LOGIN
from tests.unit.decoders.json_rpc import test_json_rpc
from tests.unit.decoders.wires import C, Step, frame
from tests.unit.kernel.ring import laid_out
from tests.unit.preload.handshake_records import failure, handshake

_REQUEST = (
    b"POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"3;x\r\nabc\r\n0\r\nT: 1\r\n\r\n"
)
_RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
_UPGRADE = b"GET / HTTP/1.1\r\nUpgrade: h2c\r\n\r\n"
_SWITCHING = b"HTTP/1.1 101 Switching\r\nUpgrade: h2c\r\n\r\n"
_BLOCK = b"\x82\x84\x86\x41\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff"
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_FRAMES = (
    frame(4, 0, 0, b"\0\1\0\0\x10\0")
    + frame(1, 0x25, 1, bytes(5) + _BLOCK)
    + frame(1, 0, 3, _BLOCK[:2])
    + frame(9, 4, 3, _BLOCK[2:])
    + frame(5, 4, 1, b"\0\0\0\2" + _BLOCK)
    + frame(0, 9, 1, b"\3abc\0\0\0")
    + frame(3, 0, 3, b"\0\0\0\x08")
    + frame(7, 0, 0, bytes(8))
)
_GRPC = b"\x0f\x10\x10application/grpc"
_CALLS = (
    frame(1, 4, 1, b"\x83\x84\x86" + _GRPC)
    + frame(0, 0, 1, b"\0\0\0\0\3\x0a\1a\1\0\0\0\5a")
    + frame(1, 4, 2, b"\x88" + _GRPC)
    + frame(1, 5, 1, b"\x00\x0bgrpc-status\x010")
)
_EVENTS = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"1a\r\n:c\nid: 1\nevent: e\ndata: a\n\n\r\n6\r\ndata:b\r\n"
)
_CODED_EVENTS = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\n\r\n"
    b"\x1f\x8b\x08\0\0\0\0\0\0\xff\x4b\x49\x2c\x49\xb4\x4a\xe4\xe2\x02\0\0\0\xff\xff"
)
_GRPC_WEB = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/grpc-web-text\r\nContent-Length: 24\r\n\r\n"
    b"AAAAAAMKAWGAAAAAA2E6Yg=="
)
_WEBSOCKET = (
    b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n"
    b"\x81\x02hi\xc1\x04\xcb\xc8\x04\0\x01\x01a\x80\x82mask\x05\x08\x88\x02\x03\xe8"
)


def _joined(steps: list[Step]) -> bytes:
    """Return what both sides sent, the client's first."""
    sent = [(side, data) for side, data in steps if isinstance(data, bytes)]
    return b"".join(data for _, data in sorted(sent, key=lambda step: step[0] is not C))


_RECORDS = [
    opened(1, from_start=True),
    addresses(1),
    *(DATA.pack(EventKind.DATA, 1, 0, 70, 1, 1, 5 * at, 5, 5, 0) + b"hello" for at in range(4)),
    ENDED.pack(EventKind.ENDED, 1, 0, 70, 1, 1, 20),
    CLOSED.pack(EventKind.CLOSED, 0, 0, 70, 1, 1, 20, 0),
]
_HANDSHAKES = [
    handshake(1),
    failure(1),
    handshake(1, received=900, is_gone=1, ending=SocketEnding.PEER_CLOSED),
]


def _ring_of(records: list[bytes]) -> bytes:
    found = laid_out(records)
    return found.end.to_bytes(8, "little") + bytes(found.data[: found.end])


_RING = _ring_of(_RECORDS)
_EDIT = b"\1" + (4096).to_bytes(4, "little") + (1 << 20).to_bytes(8, "little")
SEEDS: dict[str, list[bytes]] = {
    # The first octet says how a wire is cut and lost, see target.py.
    "http1": [b"\0" + _REQUEST + _RESPONSE, b"\3" + _UPGRADE + _SWITCHING],
    "http2": [b"\0" + _PREFACE + _FRAMES, b"\7" + _FRAMES],
    "detect": [b"\0" + _REQUEST, b"\5" + _RESPONSE, b"\1" + _PREFACE + _FRAMES],
    "carried": [
        b"\0" + _PREFACE + _CALLS,
        b"\3" + _REQUEST + _EVENTS,
        b"\1" + _REQUEST + _CODED_EVENTS,
        b"\1" + _REQUEST + _GRPC_WEB,
        b"\7" + _UPGRADE.replace(b"h2c", b"websocket") + _WEBSOCKET,
    ],
    "json_rpc": [b"\3" + _joined(wire) for wire, _ in test_json_rpc.CASES.values()],
    "databases": [
        b"\0" + _joined([*login, *steps])
        for login, cases in (
            (PG_LOGIN, test_postgresql.CASES),
            (MY_LOGIN, test_mysql.CASES),
            ([], test_redis.CASES),
        )
        for steps, _ in cases.values()
    ],
    "hpack": [_BLOCK, b"\x3f\xe1\x1f\x88\x61\x00\x40\x01a\x01b\xbe"],
    "content": [b"\x1f\x8b\x08" + bytes(7) + b"\x03\0", b"\x28\xb5\x2f\xfd\x20\x01\x09\0\0a", b"x"],
    **debug_info_seeds(),
    "damaged_ring": [
        b"\0" + _RING,
        b"\0" + _RING.replace(b"hello", b"GET /"),
        b"\x08" + _ring_of(_HANDSHAKES),
        b"\1" + _EDIT + _RING,
    ],
    # The first octets say what the function is like, see trace_targets.py.
    "locations": [
        b"\x1f\2\1\x9c\x91\x10",  # fbreg of a frame with a CFA
        b"\x1a\3\0\x55\x93\4\x30\x9f\x93\4",  # reg5 piece, lit0 stack_value piece
        b"\x0a\5\0\xa3\1\x55\x23\x10\x06\x1c\x9f",  # entry_value, plus_uconst, deref, minus
        b"\x50\1\0\xa1\3\x94\2\x12\x1e\x16\x17\x9f",
    ],
    "operands": [
        b"-4@%edi 8@-16(%rbp) 4@$5 8@(%rax,%rbx,8)",
        b"-4@16+counter(%rip) 8f@%xmm0 1@%ah 8@%fs:-0x10 8@counter(,%rcx,4)",
    ],
    "conditions": [
        b"i > 3 && req->len == 0x10 || !(ok)",
        b"not color == Red and *req.next != nil or text == \"a\\n\" && u <= 1e3 && gone != 'c'",
    ],
}
