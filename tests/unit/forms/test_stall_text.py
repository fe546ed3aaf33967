"""What a flow-control stall is, in words."""

import pytest

from sslsniff.core.sink import FlowControlStall
from sslsniff.decoders.messages import Side, WindowUse
from sslsniff.forms.text.stall_text import stall_text

C, S = Side.CLIENT, Side.SERVER
SECOND = 1_000_000_000
UPLOADS = WindowUse(262_144, 7, 258_144, (9, 11))
HELD = "stream 7 (258,144 B of the connection's window of 262,144 B"


@pytest.mark.parametrize(
    ("stream", "side", "use", "now", "before"),
    [
        (
            0,
            C,
            UPLOADS,
            f"the server does not read {HELD} are not given back); streams 9 and 11 wait for it",
            f"the server did not read {HELD} were not given back); streams 9 and 11 waited for it",
        ),
        (
            0,
            S,
            UPLOADS._replace(waiting=(9,)),
            f"the client does not read {HELD} are not given back); stream 9 waits for it",
            f"the client did not read {HELD} were not given back); stream 9 waited for it",
        ),
        (
            0,
            C,
            WindowUse(65_535, None, 0, (1, 3, 5), 1200),
            "the connection's window of 65,535 B is used up; streams 1, 3, 5 and 1,200 more wait",
            "the connection's window of 65,535 B was used up;"
            " streams 1, 3, 5 and 1,200 more waited",
        ),
        (
            1,
            C,
            WindowUse(0, 1, 0),
            "the server does not open the window of stream 1",
            "the server did not open the window of stream 1",
        ),
        (
            1,
            C,
            WindowUse(15, 1, 15),
            "the server does not read stream 1 (its window of 15 B is used up)",
            "the server did not read stream 1 (its window of 15 B was used up)",
        ),
        (1, C, None, "the window of stream 1 is 0", "the window of stream 1 was 0"),
        (
            0,
            C,
            None,
            "the connection's window is 0: no stream may send",
            "the connection's window was 0: no stream may send",
        ),
    ],
)
def test_long_stalls(stream: int, side: Side, use: WindowUse | None, now: str, before: str) -> None:
    texts = [
        stall_text(FlowControlStall(stream, side, SECOND, is_over, use), 2 * SECOND)
        for is_over in (False, True)
    ]
    assert texts == [now, before]


def test_requests_are_named_where_they_are_known() -> None:
    requests = {7: "GET /report", 11: "POST /" + "x" * 100 + "/last"}
    said = stall_text(FlowControlStall(0, C, SECOND, True, UPLOADS, requests), 2 * SECOND)
    assert said.startswith("the server did not read stream 7 GET /report (258,144 B of ")
    assert said.endswith("xxx/last waited for it")
    assert "; streams 9 and 11 POST /xxx" in said
    assert len(said) < 220
    alone = FlowControlStall(7, C, SECOND, False, None, {7: "GET /\x1b"})
    assert stall_text(alone, SECOND) == r"the window of stream 7 GET /\x1b is 0"


def test_the_network_may_need_the_time_of_a_short_stall() -> None:
    """Nobody is blamed for it."""
    stall = FlowControlStall(0, C, SECOND, True, UPLOADS)
    assert stall_text(stall, 2 * SECOND - 1) == (
        "the connection's window of 262,144 B was used up; streams 9 and 11 waited"
    )


def test_a_clock_that_steps_back_blames_nobody() -> None:
    stall = FlowControlStall(0, C, 2 * SECOND, True, UPLOADS)
    assert "read" not in stall_text(stall, SECOND)
