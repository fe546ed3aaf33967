"""Lists the errors of the functions in ssl/ssl_lib.cc, in the order of its lines: data only.

``OPENSSL_PUT_ERROR(SSL, reason)`` is a call with the library's number, the reason's number, the
file's name and the line. Functions keep their order in the file, so the reasons by line are a row
of numbers that tells which function each line is in. Read from the sources of BoringSSL from 2019
to 2026, and of AWS-LC from 2024 to 2026. Older AWS-LC has BoringSSL's rows.
"""

from typing import NamedTuple

SOURCE = b"ssl/ssl_lib.cc"
ERR_LIB_SSL = 16

# include/openssl/ssl.h
INTERNAL_ERROR = 68
NULL_SSL_CTX = 185
CONNECTION_TYPE_NOT_SET = 134
INVALID_SERVERNAME = 213
HANDSHAKE_FAILURE = 215
UNINITIALIZED = 226
SHOULD_NOT_HAVE_BEEN_CALLED = 66
_NO_RENEGOTIATION = 182
_BAD_HELLO_REQUEST = 110
_BAD_LENGTH = 111
_PROTOCOL_IS_SHUTDOWN = 194
_HANDSHAKE_NOT_COMPLETE = 284
_WRONG_SSL_VERSION = 246
APPLICATION_DATA_ON_SHUTDOWN = 291


class Raised(NamedTuple):
    """An error that a function raises on a line of its own.

    ``is_in_all``: it does in all releases.
    """

    reason: int
    is_in_all: bool = True


class FunctionReasons(NamedTuple):
    """The errors of one function, by line; ``is_in_all``: all releases and builds have it."""

    name: str
    raised: tuple[Raised, ...]
    is_in_all: bool = True


def _maybe(reason: int) -> Raised:
    return Raised(reason, is_in_all=False)


_HANDSHAKE = FunctionReasons("SSL_do_handshake", (Raised(CONNECTION_TYPE_NOT_SET),))
_QUIC = FunctionReasons(
    "SSL_process_quic_post_handshake", (Raised(SHOULD_NOT_HAVE_BEEN_CALLED),), is_in_all=False
)
_READ_IMPL = FunctionReasons("ssl_read_impl", (Raised(UNINITIALIZED), Raised(HANDSHAKE_FAILURE)))
_NOT_NULL = Raised(SHOULD_NOT_HAVE_BEEN_CALLED)
"""AWS-LC checks the object first, BoringSSL that the protocol is not QUIC: with the same reason."""


def _checks_only(name: str, *, is_in_all: bool = False) -> FunctionReasons:
    return FunctionReasons(name, (_NOT_NULL,), is_in_all)


BORINGSSL = (
    _HANDSHAKE,
    FunctionReasons(
        "ssl_do_post_handshake",
        (
            Raised(_NO_RENEGOTIATION),
            Raised(_BAD_HELLO_REQUEST),
            _maybe(_NO_RENEGOTIATION),
            _maybe(INTERNAL_ERROR),
        ),
        is_in_all=False,
    ),
    _QUIC,
    _READ_IMPL,
    FunctionReasons("SSL_peek", (Raised(SHOULD_NOT_HAVE_BEEN_CALLED),)),
    FunctionReasons(
        "SSL_write",
        (
            Raised(SHOULD_NOT_HAVE_BEEN_CALLED),
            Raised(UNINITIALIZED),
            _maybe(_PROTOCOL_IS_SHUTDOWN),
            Raised(HANDSHAKE_FAILURE),
            _maybe(_BAD_LENGTH),
        ),
    ),
    FunctionReasons(
        "SSL_key_update",
        (
            Raised(UNINITIALIZED),
            Raised(SHOULD_NOT_HAVE_BEEN_CALLED),
            Raised(_HANDSHAKE_NOT_COMPLETE),
            Raised(_WRONG_SSL_VERSION),
        ),
        is_in_all=False,
    ),
    FunctionReasons(
        "SSL_shutdown",
        (Raised(UNINITIALIZED), Raised(APPLICATION_DATA_ON_SHUTDOWN)),
        is_in_all=False,
    ),
    FunctionReasons("SSL_send_fatal_alert", (Raised(_PROTOCOL_IS_SHUTDOWN),), is_in_all=False),
)

AWS_LC = (
    _HANDSHAKE,
    _checks_only("SSL_connect"),
    _checks_only("SSL_accept"),
    FunctionReasons(
        "ssl_do_post_handshake",
        (Raised(_NO_RENEGOTIATION), Raised(_BAD_HELLO_REQUEST)),
        is_in_all=False,
    ),
    _QUIC,
    _READ_IMPL,
    _checks_only("SSL_read_ex"),
    _checks_only("SSL_read", is_in_all=True),
    FunctionReasons("SSL_peek", (_NOT_NULL, Raised(SHOULD_NOT_HAVE_BEEN_CALLED))),
    _checks_only("SSL_peek_ex"),
    FunctionReasons(
        "SSL_write",
        (
            _NOT_NULL,
            Raised(SHOULD_NOT_HAVE_BEEN_CALLED),
            Raised(UNINITIALIZED),
            Raised(HANDSHAKE_FAILURE),
            Raised(_BAD_LENGTH),
        ),
    ),
    _checks_only("SSL_write_ex"),
    FunctionReasons(
        "SSL_key_update",
        (
            _NOT_NULL,
            Raised(UNINITIALIZED),
            Raised(SHOULD_NOT_HAVE_BEEN_CALLED),
            Raised(_HANDSHAKE_NOT_COMPLETE),
            Raised(_WRONG_SSL_VERSION),
        ),
        is_in_all=False,
    ),
    FunctionReasons(
        "SSL_shutdown",
        (_NOT_NULL, Raised(UNINITIALIZED), Raised(APPLICATION_DATA_ON_SHUTDOWN)),
        is_in_all=False,
    ),
    FunctionReasons(
        "SSL_send_fatal_alert",
        (_maybe(SHOULD_NOT_HAVE_BEEN_CALLED), Raised(_PROTOCOL_IS_SHUTDOWN)),
        is_in_all=False,
    ),
)

_PEEK_INLINED = FunctionReasons("SSL_peek", (Raised(SHOULD_NOT_HAVE_BEEN_CALLED),))
AWS_LC_INLINED = tuple(_PEEK_INLINED if each.name == "SSL_peek" else each for each in AWS_LC)
"""``SSL_peek`` is inlined in ``SSL_read``, which has checked the object before."""

FORMS = ((BORINGSSL, AWS_LC), (AWS_LC_INLINED,))
"""The rows of a library: one of the first must fit, or if none does, one of the others."""

ALIKE = frozenset({"SSL_connect", "SSL_accept", "SSL_process_quic_post_handshake"})
"""Functions with the same reason: it does not matter which of them a line is in."""
