"""Which function each line is in, by the order of reasons."""

import pytest

from sslsniff.libraries.boringssl.line_order import LineOrderError, readings_of_lines

# ssl/ssl_lib.cc of 2024, from SSL_do_handshake on.
BORINGSSL = [134, 182, 110, 66, 226, 215, 66, 66, 226, 215, 111, 226, 66, 284, 246, 226, 291, 194]
AWS_LC = [134, 66, 66, 182, 110, 66, 226, 215, 66, 66, 66, 66, 66, 66, 66, 226, 215, 111, 66]


def functions_of_lines(lines: list[tuple[int, int]]) -> dict[int, str]:
    [only] = readings_of_lines(lines)
    return only


def lines(reasons: list[int]) -> list[tuple[int, int]]:
    return [(100 + 10 * at, reason) for at, reason in enumerate(reasons)]


def test_all_lines_of_boringssl_have_their_functions() -> None:
    found = functions_of_lines([(5, 185), *lines(BORINGSSL), (900, 216)])
    assert list(found.values()) == [
        "SSL_do_handshake",
        *["ssl_do_post_handshake"] * 2,
        "SSL_process_quic_post_handshake",
        *["ssl_read_impl"] * 2,
        "SSL_peek",
        *["SSL_write"] * 4,
        *["SSL_key_update"] * 4,
        *["SSL_shutdown"] * 2,
        "SSL_send_fatal_alert",
    ]


def test_aws_lc_checks_the_object_in_each_function() -> None:
    found = functions_of_lines(lines(AWS_LC))
    names = list(found.values())
    assert names[9] == "SSL_read"
    assert names[10:12] == ["SSL_peek"] * 2
    assert names[12] == "SSL_peek_ex"
    assert names[13:18] == ["SSL_write"] * 5


def test_of_two_functions_that_are_alike_one_may_be_missing() -> None:
    found = functions_of_lines(lines([each for at, each in enumerate(AWS_LC) if at != 1]))
    assert list(found.values())[1] in ("SSL_connect", "SSL_accept")
    assert list(found.values())[12:17] == ["SSL_write"] * 5


def test_an_inlined_peek_of_aws_lc_checks_nothing_again() -> None:
    """Clang's optimisation at link time; SSL_read_ex, SSL_peek_ex and SSL_write_ex are not used."""
    reasons = [134, 66, 182, 110, 226, 215, 66, 66, 66, 66, 226, 215, 111, 66, 226, 291]
    names = list(functions_of_lines(lines(reasons)).values())
    assert names[6:8] == ["SSL_read", "SSL_peek"]
    assert names[8:13] == ["SSL_write"] * 5
    assert names[13:] == ["SSL_shutdown"] * 3


def test_lines_that_can_be_read_in_several_ways_are_read_in_all() -> None:
    """GCC inlined SSL_peek in SSL_read_ex, SSL_read and SSL_peek_ex: its check is gone there."""
    reasons = [134, 66, 182, 110, 226, 215, *[66] * 6, 226, 215, 111, 66, 66, 226, 291]
    readings = [list(each.values()) for each in readings_of_lines(lines(reasons))]
    assert [each[6:10] for each in readings] == [
        ["SSL_read", "SSL_peek", "SSL_peek", "SSL_peek_ex"],
        ["SSL_read_ex", "SSL_read", "SSL_peek", "SSL_peek"],
    ]
    assert all(each[10:15] == ["SSL_write"] * 5 for each in readings)


def test_a_line_with_several_reasons_does_not_count() -> None:
    found = functions_of_lines([*lines(BORINGSSL), (155, 1), (155, 2)])
    assert len(found) == len(BORINGSSL)


@pytest.mark.parametrize(
    ("reasons", "said"),
    [
        ([226, 215, 66], "raised on 0 lines"),
        ([134, 226, 134], "raised on 2 lines"),
        ([134, 226, 215, 66, 66, 226], "in no known order: 100:134 110:226 120:215"),
        ([134], "in no known order"),
    ],
)
def test_an_order_that_is_not_known_is_refused(reasons: list[int], said: str) -> None:
    with pytest.raises(LineOrderError, match=said):
        readings_of_lines(lines(reasons))


@pytest.mark.parametrize("missing", range(len(BORINGSSL)))
def test_without_one_line_no_function_gets_another_ones_line(missing: int) -> None:
    """The line of an optional function may be missing; any other one leads to a refusal."""
    whole = functions_of_lines(lines(BORINGSSL))
    rest = [each for at, each in enumerate(lines(BORINGSSL)) if at != missing]
    try:
        found = functions_of_lines(rest)
    except LineOrderError:
        return
    for line, name in found.items():
        if name in ("SSL_write", "SSL_peek", "ssl_read_impl"):
            assert whole[line] == name
