"""``~redacted``, with a regex and without one."""

import pytest

from sslsniff.core.errors import FilterError
from sslsniff.core.redacted import RedactedSecret
from sslsniff.filters.filters import parse
from tests.unit.exchanges import exchange, request, response

WITH = exchange(request("POST", "/login"), response())
WITH.redacted = {
    RedactedSecret("request header", "authorization", None, "3fa2b1c0"): 1,
    RedactedSecret("request body", "NPM_AUTH", "npm", "0badcafe"): 2,
    RedactedSecret("response header", "set-cookie"): 1,
}
WITHOUT = exchange(request("POST", "/authorization"), response())


@pytest.mark.parametrize(
    ("expression", "matches"),
    [
        ("~redacted", True),
        ("~redacted authorization", True),
        ("~redacted ^npm_auth$", True),
        ("~redacted ^npm$", True),
        ("~redacted #3fa2", True),
        ("~redacted 3fa2b1c0", True),
        ("~redacted 'request body'", True),
        ("~redacted password", False),
        ("~redacted & ~m POST", True),
        ("~redacted | ~m GET", True),
        ("~redacted ~m GET", False),
        ("~redacted ~m POST", True),
        ("(~redacted) login", True),
        ("~redacted npm login", True),
        ("!~redacted", False),
        ("~redacted !~m POST", False),
    ],
)
def test_it_finds_secrets_by_what_is_known_of_them(expression: str, matches: bool) -> None:
    assert parse(expression).matches(WITH) is matches
    assert parse(expression).matches(WITHOUT) is (expression == "!~redacted")


def test_a_wrong_regex_is_an_error() -> None:
    with pytest.raises(FilterError, match="wrong regex"):
        parse("~redacted [")
