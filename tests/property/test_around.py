"""``--around`` passes on what matches and its neighbours, whole, and nothing else."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.captures import READ, WRITE, answer, get, http2_steps, post
from tests.unit.filters.passed_around import Passed


def window(failed: Sequence[bool], count: int) -> set[int]:
    """Return the indexes of those that failed, and of ``count`` before and after each."""
    return {
        near
        for at, is_failed in enumerate(failed)
        if is_failed
        for near in range(max(0, at - count), min(len(failed), at + count + 1))
    }


def cut(data: bytes, at: int) -> list[bytes]:
    return [piece for piece in (data[:at], data[at:]) if piece]


@given(
    st.lists(
        st.tuples(st.integers(1, 3), st.sampled_from([False] * 4 + [True]), st.integers(0, 60))
    ),
    st.integers(0, 3),
)
def test_http1(exchanges: list[tuple[int, bool, int]], count: int) -> None:
    passed = Passed(count)
    for connection in (1, 2, 3):
        passed.open(connection)
    failed: dict[int, list[bool]] = {1: [], 2: [], 3: []}
    for connection, is_failed, at in exchanges:
        target = f"/{connection}/{len(failed[connection])}"
        failed[connection].append(is_failed)
        request = post(target, b"body" * 9) if at % 2 else get(target)
        response = answer(bytes(at * 400), "500 No" if is_failed else "200 OK")
        passed.send(connection, [(WRITE, piece) for piece in cut(request, at)])
        passed.send(connection, [(READ, piece) for piece in cut(response, at)])
    passed.finish()
    expected = {
        f"/{connection}/{at}" for connection, some in failed.items() for at in window(some, count)
    }
    assert sorted(passed.seen.targets) == sorted(expected)
    assert passed.seen.totals.shown == len(expected)
    assert not passed.seen.totals.losses
    back = passed.read_back()
    assert sorted(str(each.request.target) for each in back if each.request) == sorted(expected)
    assert len(back) == len(expected)
    for each in back:
        assert each.error is None
        assert each.response is not None
        assert each.connection.missing_bytes == 0
        sizes = each.response.headers.all("content-length")
        assert each.response.body.size == int(sizes[0] or 0)


@given(st.lists(st.sampled_from([False] * 6 + [True]), max_size=30), st.integers(0, 2))
def test_pipelined_exchanges_stay_together(failed: list[bool], count: int) -> None:
    """Two of them at a time: what has one of them has the other."""
    passed = Passed(count)
    passed.open(1)
    pairs = [(at, at + 1) for at in range(0, len(failed) - 1, 2)]
    for pair in pairs:
        passed.send(1, [(WRITE, b"".join(get(f"/{at}") for at in pair))])
        statuses = ["500 No" if failed[at] else "200 OK" for at in pair]
        passed.send(1, [(READ, b"".join(answer(b"x", status) for status in statuses))])
    passed.finish()
    least = {at for at in window(failed[: 2 * len(pairs)], count)}
    most = {at for pair in pairs if least & {*pair} for at in pair}
    most |= {at for pair in pairs if least & {pair[0] - 1, pair[1] + 1} for at in pair}
    shown = {int(target[1:]) for target in passed.seen.targets}
    assert least <= shown <= most
    back = passed.read_back()
    assert {int(str(each.request.target)[1:]) for each in back if each.request} == shown
    assert all(each.error is None for each in back)


def test_http2_is_cut_where_no_stream_is_open() -> None:
    passed = Passed(1, "~u /20$")
    passed.open(1, "h2")
    passed.send(1, http2_steps(40, b"b" * 3000))
    passed.finish()
    assert passed.seen.targets == ["/19", "/20", "/21"]
    back = passed.read_back()
    assert [each.response.status for each in back if each.response] == [200] * 3
    assert [each.response.body.size for each in back if each.response] == [3000] * 3
    assert [each.error for each in back] == [None] * 3
    assert len(passed.file.getvalue()) < 3 * 3000 + 6000


def test_what_waits_is_bounded_and_counted() -> None:
    passed = Passed(50, waiting_bytes=200_000)
    passed.open(1)
    for number in range(100):
        status = "500 No" if number == 99 else "200 OK"
        passed.send(1, [(WRITE, get(f"/{number}")), (READ, answer(bytes(20_000), status))])
    passed.finish()
    shown = len(passed.seen.targets)
    assert 4 < shown < 12
    [loss] = passed.seen.totals.losses
    assert loss.cause.value == "filter"
    assert loss.events == 51 - shown
    assert [each.error for each in passed.read_back()] == [None] * shown


def test_a_large_transfer_that_fails_has_its_end() -> None:
    passed = Passed(0, waiting_bytes=200_000)
    passed.open(1)
    whole = answer(bytes(1_000_000), "500 No")
    pieces = [whole[at : at + 10_000] for at in range(0, len(whole), 10_000)]
    passed.send(1, [(WRITE, get("/large")), *((READ, piece) for piece in pieces)])
    passed.finish()
    assert passed.seen.targets == ["/large"]
    [loss] = passed.seen.totals.losses
    assert 700_000 < loss.bytes < 1_000_000


def test_many_connections_share_the_room() -> None:
    passed = Passed(3, waiting_bytes=100_000)
    for connection in range(1, 300):
        passed.open(connection)
        passed.send(connection, [(WRITE, get("/begun")[:20])])
    for connection in (1, 299):
        passed.send(connection, [(WRITE, get("/begun")[20:]), (READ, answer(b"x", "500 No"))])
    passed.finish()
    assert passed.seen.targets == ["/begun"] * 2
