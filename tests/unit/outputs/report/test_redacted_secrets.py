"""The report's table of secrets that were blanked."""

from pathlib import Path

import pytest

from sslsniff.core.model import Exchange
from sslsniff.core.redacted import NO_MESSAGE, RedactedSecret
from sslsniff.core.sink import Summary
from sslsniff.outputs.report.redacted_secrets import RedactedSecrets
from tests.unit.exchanges import START_NS, connection, exchange, request, response
from tests.unit.outputs.report.pages import Parts, sink

HEADER = RedactedSecret("request header", "authorization", None, "3fa2b1c0")
FIELD = RedactedSecret("request body", "NPM_AUTH</script>", "npm", "3fa2b1c0")
COOKIE = RedactedSecret("response header", "set-cookie", None, "00000001")
SHORT = RedactedSecret("request body", "pin")


def blanked(*secrets: RedactedSecret, comm: str = "curl") -> Exchange:
    made = exchange(request(), response(), connection(comm=comm))
    made.redacted = dict.fromkeys(secrets, 2)
    return made


def test_equal_ones_are_a_row_and_the_same_secret_is_counted() -> None:
    found = RedactedSecrets()
    found.add(exchange(request(), response()))
    for comm, secrets in (("a", [HEADER, SHORT]), ("a", [HEADER]), ("b", [HEADER, COOKIE])):
        found.add(blanked(*secrets, comm=comm))
    found.add(blanked(FIELD, comm="c"))
    rows = found.object()["rows"]
    assert [(row["name"], row["process"], row["count"], row["places"]) for row in rows] == [
        (FIELD.name, "c[7]", 2, 3),
        ("authorization", "a[7]", 4, 3),
        ("authorization", "b[7]", 2, 3),
        ("set-cookie", "b[7]", 2, 1),
        ("pin", "a[7]", 2, None),
    ]
    assert rows[0] == {
        "name": FIELD.name,
        "pattern": "npm",
        "where": "request body",
        "fingerprint": "3fa2b1c0",
        "process": "c[7]",
        "role": "client",
        "server": "127.0.0.1:8443",
        "host": "example.org",
        "count": 2,
        "first_us": START_NS // 1000,
        "last_us": START_NS // 1000,
        "places": 3,
    }


@pytest.mark.parametrize("count", [500, 501, 700])
def test_rows_are_bounded(count: int) -> None:
    found = RedactedSecrets()
    for number in range(count):
        found.add(blanked(RedactedSecret("request body", f"field {number}")))
    shown = found.object()
    assert (len(shown["rows"]), shown["left_out"]) == (500, 2 * (count - 500))


def test_they_are_in_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    with page.open("wb") as file:
        report = sink(file)
        report.exchange(blanked(FIELD))
        summary = Summary(1)
        summary.secrets.add({NO_MESSAGE: {FIELD: 2}})
        report.summary(summary)
        report.close()
    parts = Parts(page.read_bytes())
    [row] = parts.capture["secrets"]["rows"]
    assert row["name"] == FIELD.name
    assert parts.capture["summary"]["secrets"] == 2
