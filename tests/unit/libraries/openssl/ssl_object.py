"""Run by test_ssl_layout: connects a client to a server in memory, by the libssl that it is given.

Arguments: the library and, as JSON, the layout read from it. Prints as JSON, for each end, what the
accessors say and what is in memory where the layout says.
"""

import ctypes
import json
import sys
from collections.abc import Callable
from ctypes import byref, c_char_p, c_int, c_size_t, c_ubyte, c_uint, c_void_p, string_at
from typing import Any

library = ctypes.CDLL(sys.argv[1])
layout = json.loads(sys.argv[2])
ALPN = b"spoken/1.1"
ANONYMOUS = b"AECDH-AES128-SHA@SECLEVEL=0"
TLS_1_2 = 0x0303
SET_MAX_PROTO_VERSION = 124
SET_TLSEXT_HOSTNAME = 55
RANDOM_BYTES = 32
ALPN_CALLBACK = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_void_p, c_uint, c_void_p)


def function(name: str, result: object, *arguments: object) -> Callable[..., Any]:
    found: Any = getattr(library, name)
    found.restype, found.argtypes = result, arguments
    called: Callable[..., Any] = found
    return called


new_context = function("SSL_CTX_new", c_void_p, c_void_p)
new = function("SSL_new", c_void_p, c_void_p)
handshake = function("SSL_do_handshake", c_int, c_void_p)


def choose(ssl: int, out: int, out_length: int, offered: int, length: int, given: int) -> int:
    ctypes.memmove(out, byref(c_void_p(offered + 1)), 8)
    ctypes.memmove(out_length, byref(c_ubyte(len(ALPN))), 1)
    return 0


CHOOSE = ALPN_CALLBACK(choose)


def make(side: str) -> int:
    method = function("TLS_method", c_void_p)()
    context = new_context(method)
    assert function("SSL_CTX_set_cipher_list", c_int, c_void_p, c_char_p)(context, ANONYMOUS)
    control = function("SSL_CTX_ctrl", ctypes.c_long, c_void_p, c_int, ctypes.c_long, c_void_p)
    assert control(context, SET_MAX_PROTO_VERSION, TLS_1_2, None)
    function("SSL_CTX_set_alpn_select_cb", None, c_void_p, ALPN_CALLBACK, c_void_p)(
        context, CHOOSE, None
    )
    ssl: int = new(context)
    if side == "connect":
        assert function("SSL_ctrl", ctypes.c_long, c_void_p, c_int, ctypes.c_long, c_char_p)(
            ssl, SET_TLSEXT_HOSTNAME, 0, b"example.org"
        )
    function(f"SSL_set_{side}_state", None, c_void_p)(ssl)
    offer = bytes([len(ALPN)]) + ALPN
    set_protocols = function("SSL_set_alpn_protos", c_int, c_void_p, c_char_p, c_uint)
    assert set_protocols(ssl, offer, len(offer)) == 0
    return ssl


def connect(client: int, server: int) -> None:
    new_bio = function("BIO_new", c_void_p, c_void_p)
    memory = function("BIO_s_mem", c_void_p)
    set_bio = function("SSL_set_bio", None, c_void_p, c_void_p, c_void_p)
    keep = function("BIO_up_ref", c_int, c_void_p)
    there, back = new_bio(memory()), new_bio(memory())
    for bio in (there, back):
        keep(bio)
    set_bio(client, back, there)
    set_bio(server, there, back)
    for _ in range(8):
        if handshake(client) == 1 and handshake(server) == 1:
            return
        handshake(server)
    raise AssertionError("the ends did not agree")


def at(address: int | None, offset: int | None, size: int) -> int | None:
    if address is None or offset is None:
        return None
    return int.from_bytes(string_at(address + offset, size), "little")


def in_memory(ssl: int) -> dict[str, object]:
    base = ssl if layout["alpn_base"] is None else at(ssl, layout["alpn_base"], 8)
    length = at(base, layout["alpn_length"], 4)
    alpn = at(base, layout["alpn"], 8)
    cipher = at(at(ssl, layout["session"], 8), layout["session_cipher"], 8)
    name = at(cipher, layout["cipher_name"], 8)
    random_at = ssl if layout["random_base"] is None else at(ssl, layout["random_base"], 8)
    sni = at(ssl, layout["sni"], 8) or at(at(ssl, layout["sni_base"], 8), layout["sni_inner"], 8)
    return {
        "server": at(ssl, layout["server"], 4),
        "version": at(ssl, layout["version"], 4),
        "alpn": string_at(alpn, length).decode() if alpn and length else "",
        "cipher": string_at(name).decode() if name else "",
        "references": at(ssl, layout["references"], 4),
        "sni": string_at(sni).decode() if sni else "",
        "shutdown": at(ssl, layout["shutdown"], 4),
        "verified": at(ssl, layout["verified"], 4),
        "random": string_at(random_at + layout["random"], RANDOM_BYTES).hex() if random_at else "",
        "type": at(ssl, 0, 4) if layout["is_typed"] else 0,
    }


def by_accessors(ssl: int, references: int) -> dict[str, object]:
    alpn, length = c_void_p(), c_uint()
    function("SSL_get0_alpn_selected", None, c_void_p, c_void_p, c_void_p)(
        ssl, byref(alpn), byref(length)
    )
    cipher = function("SSL_get_current_cipher", c_void_p, c_void_p)(ssl)
    random = (c_ubyte * RANDOM_BYTES)()
    get_random = function("SSL_get_client_random", c_size_t, c_void_p, c_void_p, c_size_t)
    assert get_random(ssl, random, RANDOM_BYTES) == RANDOM_BYTES
    return {
        "server": function("SSL_is_server", c_int, c_void_p)(ssl),
        "version": function("SSL_version", c_int, c_void_p)(ssl),
        "alpn": string_at(alpn.value, length.value).decode() if alpn.value else "",
        "cipher": function("SSL_CIPHER_get_name", c_char_p, c_void_p)(cipher).decode(),
        "references": references,
        "sni": function("SSL_get_servername", c_char_p, c_void_p, c_int)(ssl, 0).decode(),
        "shutdown": function("SSL_get_shutdown", c_int, c_void_p)(ssl),
        "verified": function("SSL_get_verify_result", ctypes.c_long, c_void_p)(ssl),
        "random": bytes(random).hex(),
        "type": 0,
    }


client, server = make("connect"), make("accept")
connect(client, server)
assert function("SSL_up_ref", c_int, c_void_p)(server)
shut_down = function("SSL_shutdown", c_int, c_void_p)
assert [shut_down(each) for each in (client, server) * 2] == [0, 0, 1, 1]
print(
    json.dumps(
        {
            "client": [by_accessors(client, 1), in_memory(client)],
            "server": [by_accessors(server, 2), in_memory(server)],
        }
    )
)
