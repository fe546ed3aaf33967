"""An exchange that is rebuilt from its JSON line is the one that was written."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sslsniff.decoders.messages import Header
from sslsniff.filters.filters import parse
from sslsniff.outputs.har.entry import entry
from sslsniff.screen.captured.rebuilt_exchanges import exchange_of
from tests.unit.exchanges import exchange, request, response
from tests.unit.screen.captured_lines import written

TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
HEADERS: st.SearchStrategy[list[Header]] = st.lists(
    st.tuples(TEXT | st.none(), TEXT | st.none()), max_size=4
)


@pytest.mark.tools
@given(HEADERS, HEADERS, st.binary(max_size=40), st.binary(max_size=40), TEXT | st.none())
def test_all_that_sinks_take(
    asked: list[Header], answered: list[Header], sent: bytes, received: bytes, error: str | None
) -> None:
    original = exchange(
        request("POST", "/a", asked, sent), response(200, answered, received), error=error
    )
    shown = orjson.loads(written(lambda sink: sink.exchange(original)))
    rebuilt = exchange_of(shown, original.connection.sni)
    assert orjson.loads(written(lambda sink: sink.exchange(rebuilt))) == shown
    assert entry(rebuilt) == entry(original)


@pytest.mark.parametrize(
    "expression",
    [
        *(
            "~m POST",
            "~c 404",
            "~u /a",
            "~d example",
            "~h accept",
            "~hs type",
            "~b body",
            "~bq body",
        ),
        *("~t json", "~src 127", "~dst 8443", "~comm curl", "~pid 7", "~e", "~q", "~proto http"),
    ],
)
def test_filters_say_the_same(expression: str) -> None:
    kinds: list[Header] = [("content-type", "application/json")]
    for original in (
        exchange(request("POST", "/a", [("accept", "x")], b"body"), response(404, kinds, b"text")),
        exchange(request("GET", "/b"), None, error="reset: CANCEL", protocol="http/2"),
    ):
        shown = orjson.loads(written(lambda sink, each=original: sink.exchange(each)))  # type: ignore[misc]
        matches = parse(expression).matches
        assert matches(exchange_of(shown)) == matches(original)
