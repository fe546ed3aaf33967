"""Passes a message through each of several copies of OpenSSL, which are in the process at once.

Arguments: certificate, key, the paths of the copies.
"""

import ctypes
import sys

FILETYPE_PEM = 1


def pass_message(path: str, certificate: bytes, key: bytes, message: bytes) -> None:
    """Load a copy and let two ends of a connection in memory pass a message."""
    ssl, crypto = ctypes.CDLL(path), ctypes.CDLL("libcrypto.so.3")
    for function in (ssl.TLS_method, ssl.SSL_CTX_new, ssl.SSL_new):
        function.restype = ctypes.c_void_p
    ends = []
    for set_role in (ssl.SSL_set_accept_state, ssl.SSL_set_connect_state):
        context = ctypes.c_void_p(ssl.SSL_CTX_new(ctypes.c_void_p(ssl.TLS_method())))
        assert ssl.SSL_CTX_use_certificate_file(context, certificate, FILETYPE_PEM) == 1
        assert ssl.SSL_CTX_use_PrivateKey_file(context, key, FILETYPE_PEM) == 1
        end = ctypes.c_void_p(ssl.SSL_new(context))
        assert end, f"{path}: SSL_new returned NULL"
        set_role(end)
        ends.append(end)
    pair = ctypes.c_void_p(), ctypes.c_void_p()
    usual = ctypes.c_size_t(0)
    assert crypto.BIO_new_bio_pair(ctypes.byref(pair[0]), usual, ctypes.byref(pair[1]), usual) == 1
    for end, bio in zip(ends, pair, strict=True):
        ssl.SSL_set_bio(end, bio, bio)
    for _ in range(4):
        for end in ends:
            ssl.SSL_do_handshake(end)
    assert ssl.SSL_write(ends[1], message, len(message)) == len(message)
    received = ctypes.create_string_buffer(len(message))
    assert ssl.SSL_read(ends[0], received, len(message)) == len(message)
    assert received.raw == message


certificate, key, *copies = sys.argv[1:]
for number, copy in enumerate(copies):
    pass_message(copy, certificate.encode(), key.encode(), b"copy %d" % number)
