"""Who is the client, where the library does not tell."""

import pytest

from sslsniff.core.model import Chunk, Connection, Direction
from sslsniff.core.process import Process
from sslsniff.core.roles import MOST_CHUNKS, Roles
from sslsniff.decoders.messages import Side

READ, WRITE = Direction.READ, Direction.WRITE
REQUEST, RESPONSE = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n"


def connection(role: Side | None = None) -> Connection:
    return Connection("7-1", Process(7, "demo"), "rustls", role, True, 0)


def chunk(of: Connection, direction: Direction, data: bytes) -> Chunk:
    return Chunk(of, direction, 1, 7, 0, data)


@pytest.mark.parametrize(
    ("direction", "data", "role"),
    [
        (WRITE, REQUEST, Side.CLIENT),
        (READ, REQUEST, Side.SERVER),
        (WRITE, RESPONSE, Side.SERVER),
        (READ, RESPONSE, Side.CLIENT),
    ],
)
def test_a_message_shows_the_role(direction: Direction, data: bytes, role: Side) -> None:
    one = connection()
    Roles().observe(chunk(one, direction, data))
    assert one.role is role
    assert one.role_is_inferred


@pytest.mark.parametrize(("first", "role"), [(WRITE, Side.CLIENT), (READ, Side.SERVER)])
def test_who_sent_first_is_the_client_where_nothing_shows_it(first: Direction, role: Side) -> None:
    one, roles = connection(), Roles()
    other = READ if first is WRITE else WRITE
    roles.observe(chunk(one, first, b"\0\1opaque"))
    for _ in range(MOST_CHUNKS - 2):
        roles.observe(chunk(one, other, b"\0\1opaque"))
    assert one.role is None
    roles.observe(chunk(one, other, b"\0\1opaque"))
    assert one.role is role


def test_what_the_library_told_stays() -> None:
    one = connection(Side.SERVER)
    Roles().observe(chunk(one, WRITE, REQUEST))
    assert one.role is Side.SERVER
    assert not one.role_is_inferred


def test_nothing_is_kept_of_a_connection_that_ended() -> None:
    one, roles = connection(), Roles()
    roles.observe(chunk(one, READ, b"\0\1opaque"))
    roles.forget(one)
    assert not any(vars(roles).values())
