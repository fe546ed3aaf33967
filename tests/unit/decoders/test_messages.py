"""What headers are asked."""

from sslsniff.decoders.messages import Headers, cached_in_headers


def test_results_are_cached_in_headers() -> None:
    asked: list[Headers] = []

    @cached_in_headers
    def count(headers: Headers) -> int | None:
        asked.append(headers)
        return len(headers) or None

    one, none = Headers([("a", "b")]), Headers()
    assert [count(one), count(none), count(one), count(none)] == [1, None, 1, None]
    assert asked == [one, none]


def test_each_question_has_its_own_answer() -> None:
    headers = Headers([("a", "b")])
    assert cached_in_headers(first_name)(headers) == "a"
    assert cached_in_headers(first_value)(headers) == "b"


def first_name(headers: Headers) -> str | None:
    """Return the name of the first header."""
    return headers[0][0]


def first_value(headers: Headers) -> str | None:
    """Return the value of the first header."""
    return headers[0][1]
