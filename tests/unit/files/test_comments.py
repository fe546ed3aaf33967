"""Comments in captures: written, and read back."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sslsniff.core.losses import LossCause
from sslsniff.core.model import Direction
from sslsniff.core.process import Container
from sslsniff.core.redacted import PlacedCounts, RedactedSecret
from sslsniff.decoders.messages import Side
from sslsniff.files.comments import GOES_ON, MADE_UP, Blanked, Described, Lost, parse

DESCRIBED = Described(
    connection="7-1",
    part=1,
    pid=7,
    comm="curl",
    uid=1000,
    library="libssl.so.3",
    role=Side.CLIENT,
    plays=Side.CLIENT,
    from_start=True,
    addresses_known=True,
    wrapped=True,
    read=0,
    written=0,
    sni="example.org",
    alpn="h2",
    tls_version="TLS 1.3",
    cipher="TLS_AES_256_GCM_SHA384",
)
LOST = Lost(1000, 500, LossCause.CALL_LIMIT, Direction.READ)
ODD = replace(
    DESCRIBED,
    comm='new\nline "quoted" \udcff',
    role=None,
    plays=Side.SERVER,
    uid=None,
    sni=None,
    alpn=None,
    part=3,
    from_start=False,
    addresses_known=False,
    wrapped=False,
)


CONTAINED = replace(
    DESCRIBED,
    container=Container("docker", "0f" * 32, 'a "name"\n', pod="p", unit="nginx.service"),
    container_pid=12,
)


@pytest.mark.parametrize("described", [DESCRIBED, ODD, CONTAINED])
def test_description(described: Described) -> None:
    assert parse((described.text(),)) == described
    assert parse((described.text(LOST),)) == replace(described, lost=LOST)


def test_sentences() -> None:
    assert DESCRIBED.text().startswith(
        "curl[7], connection 7-1, client by libssl.so.3, TLS 1.3, TLS_AES_256_GCM_SHA384,"
        " example.org, h2\n{"
    )
    assert "perhaps server by" in ODD.text()
    assert CONTAINED.text().startswith('curl[7, 12 in p/a "name"')
    assert LOST.text().startswith("1000 bytes were not captured (call limit): zeros stand")


def test_others() -> None:
    assert parse((LOST.text(),)) == LOST
    assert parse((MADE_UP,)) == MADE_UP
    assert parse((GOES_ON,)) == GOES_ON
    assert parse(("somebody's comment", GOES_ON)) == GOES_ON
    assert parse(("somebody's comment",)) is None
    assert parse(()) is None


@pytest.mark.parametrize(
    "changed",
    [
        {"pid": "7"},
        {"pid": None},
        {"read": -1},
        {"written": 1 << 70},
        {"role": "spectator"},
        {"plays": None},
        {"lost": {"missing": 1}},
        {"lost": 5},
        {"sni": 5},
        {"from_start": 1},
    ],
)
def test_forged_descriptions_are_ignored(changed: dict[str, object]) -> None:
    values = json.loads(DESCRIBED.text().rpartition("\n")[2])
    assert parse((json.dumps(values),)) == DESCRIBED
    assert parse((json.dumps(values | changed),)) is None


@pytest.mark.tools
@given(st.text())
def test_any_text(tail: str) -> None:
    parse(('{"sslsniff": 1' + tail,))
    parse(('{"sslsniff": 1, ' + "[" * 100_000 + tail,))


@pytest.mark.parametrize("values", [7, "docker", [], {"runtime": 7}, {"id": ["x"]}])
def test_a_container_of_another_form_is_no_comment_of_sslsniff(values: object) -> None:
    text = CONTAINED.text()
    line = json.loads(text.rpartition("\n")[2]) | {"container": values}
    assert parse((json.dumps(line),)) is None


def test_containers_of_other_versions_are_read() -> None:
    line = json.loads(DESCRIBED.text().rpartition("\n")[2])
    del line["container"], line["container_pid"]
    assert parse((json.dumps(line),)) == DESCRIBED
    line["container"] = {"runtime": "new", "colour": "red"}
    assert parse((json.dumps(line),)) == replace(DESCRIBED, container=Container("new"))


SECRETS = st.builds(
    RedactedSecret,
    st.sampled_from(["request header", "response body"]),
    st.text(max_size=20),
    st.none() | st.text(max_size=9),
    st.none() | st.text("0123456789abcdef", min_size=8, max_size=8),
)
PLACED = st.dictionaries(
    st.tuples(st.integers(0, 9), st.none() | st.integers(0, 1 << 40)),
    st.dictionaries(SECRETS, st.integers(1, 99), min_size=1, max_size=4),
    min_size=1,
    max_size=5,
)


@given(secrets=PLACED, offset=st.integers(0, 1 << 40))
def test_blanked_secrets_are_read_back(secrets: PlacedCounts, offset: int) -> None:
    note = parse((Blanked.of(secrets, offset).text(),))
    assert isinstance(note, Blanked)
    assert note.at(offset) == secrets


@pytest.mark.parametrize(
    "redacted",
    [{}, [1], [{"stream": -1}], [{"stream": 0, "where": 1, "name": "a", "count": 1}], None],
)
def test_other_values_of_blanked_secrets_are_ignored(redacted: object) -> None:
    assert parse((f"x\n{json.dumps({'sslsniff': 1, 'redacted': redacted})}",)) is None
