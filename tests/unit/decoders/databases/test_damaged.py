"""Whatever comes, decoders of databases do not raise, and report each byte at most once."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sslsniff.decoders.databases.database_decoder import DatabaseDecoder
from sslsniff.decoders.databases.mysql.mysql_decoder import MysqlDecoder
from sslsniff.decoders.databases.postgresql.postgresql_decoder import PostgresqlDecoder
from sslsniff.decoders.databases.redis.redis_decoder import RedisDecoder
from tests.unit.decoders.databases import test_mysql, test_postgresql, test_redis
from tests.unit.decoders.databases.database_wires import (
    MY_LOGIN,
    PG_LOGIN,
    Decoded,
    statements,
    undecoded_bytes,
)
from tests.unit.decoders.wires import END, C, S, Step, run

pytestmark = pytest.mark.tools


def steps(cases: dict[str, tuple[list[Step], list[Decoded]]]) -> list[Step]:
    return [step for wire, _ in cases.values() for step in wire]


WIRES: dict[type[DatabaseDecoder], list[Step]] = {
    PostgresqlDecoder: [*PG_LOGIN, *steps(test_postgresql.CASES)],
    MysqlDecoder: [*MY_LOGIN, *steps(test_mysql.CASES)],
    RedisDecoder: steps(test_redis.CASES),
}


@pytest.mark.parametrize("make", WIRES)
@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_damage(make: type[DatabaseDecoder], data: st.DataObject) -> None:
    wire = [*WIRES[make]]
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(wire) - 1))
        side, step = wire[at]
        if not isinstance(step, bytes) or not step:
            continue
        if data.draw(st.booleans()):
            wire[at] = side, len(step)  # lost
            continue
        damaged = bytearray(step)
        damaged[data.draw(st.integers(0, len(step) - 1))] = data.draw(st.integers(0, 255))
        wire[at] = side, bytes(damaged)
    wire += [(C, END), (S, END)]
    decoder = make()
    messages = run(decoder, wire, data.draw(st.sampled_from([1 << 30, 1, 13])))
    assert undecoded_bytes(messages) <= sum(
        len(each) for _, each in wire if isinstance(each, bytes)
    )
    assert not decoder.open
    assert all(each.ended != "open" for each in statements(messages))


@pytest.mark.parametrize("make", WIRES)
@given(pieces=st.lists(st.tuples(st.sampled_from([C, S]), st.binary(max_size=60)), max_size=20))
def test_any_bytes(make: type[DatabaseDecoder], pieces: list[Step]) -> None:
    run(make(), [*WIRES[make][:4], *pieces])
