"""What is said of blanked secrets: never their text, and the same fingerprint for the same text."""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from urllib.parse import quote

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from sslsniff.core.model import Chunk
from sslsniff.core.redacted import MessageKey, RedactedSecret
from sslsniff.decoders.messages import Side
from sslsniff.redaction.redactor import Redactor
from sslsniff.redaction.rules import Rules
from tests.property.planted_bodies import BODIES, SECRET
from tests.property.planted_connections import PROTOCOLS
from tests.unit.captures import READ, WRITE, Step
from tests.unit.exchanges import connection
from tests.unit.redaction.test_redaction import Received
from tests.unit.redaction.traffic import PATTERN, cut

pytestmark = pytest.mark.tools

PIECES = {SECRET[at : at + 5].lower() for at in range(len(SECRET) - 4)}


def marks(steps: list[Step], rules: Rules) -> Counter[tuple[MessageKey, RedactedSecret]]:
    """Return the secrets that are marked, and how often each is."""
    received = Received()
    redactor = Redactor(received, rules)
    one = replace(connection(), role=Side.CLIENT)
    redactor.opened(one, 0)
    offsets = {READ: 0, WRITE: 0}
    for number, (direction, data) in enumerate(steps):
        assert isinstance(data, bytes)
        redactor.chunk(Chunk(one, direction, number, 7, offsets[direction], data))
        offsets[direction] += len(data)
    redactor.closed(one, 99)
    found: Counter[tuple[MessageKey, RedactedSecret]] = Counter()
    for chunk in received.chunks:
        for place, counts in (chunk.redacted or {}).items():
            found.update({(place, secret): count for secret, count in counts.items()})
    return found


def rules() -> Rules:
    return Rules(defaults=True, patterns=[regex.compile(PATTERN.encode())])


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("body", BODIES)
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_no_part_of_a_secret_is_in_what_is_said_of_it(
    protocol: str, body: str, data: st.DataObject
) -> None:
    steps = data.draw(st.composite(lambda draw: PROTOCOLS[protocol](draw, BODIES[body](draw)))())
    one = rules()
    whole = marks(steps, one)
    pieces = marks(cut(steps, random.Random(data.draw(st.integers(0, 1 << 30)))), one)
    for _, secret in (*whole, *pieces):
        said = " ".join(map(str, secret)).lower()
        assert [piece for piece in PIECES if piece in said] == [], secret
    assert _unnamed(whole) == _unnamed(pieces)


def _unnamed(
    found: Counter[tuple[MessageKey, RedactedSecret]],
) -> Counter[tuple[MessageKey, RedactedSecret]]:
    """Return the same without names: one that follows its value may come too late."""
    out: Counter[tuple[MessageKey, RedactedSecret]] = Counter()
    for (place, secret), count in found.items():
        out[place, secret._replace(name="")] += count
    return out


PLACES: dict[str, Callable[[str], bytes]] = {
    "bearer": lambda text: f"GET / HTTP/1.1\r\nAuthorization: Bearer {text}\r\n\r\n".encode(),
    "header": lambda text: f"GET / HTTP/1.1\r\nX-Api-Key: {text}\r\n\r\n".encode(),
    "cookies": lambda text: f"GET / HTTP/1.1\r\nCookie: a=b; c={text}\r\n\r\n".encode(),
    "query": lambda text: f"GET /?token={quote(text)} HTTP/1.1\r\n\r\n".encode(),
    "json": lambda text: _post('{"user": {"npm_token": "' + text + '"}, "n": 1}'),
    "form": lambda text: _post(f"user=x&password={text}"),
    "pattern": lambda text: _post('{"note": "x", "key": "<' + text + '>"}'),
    "yaml": lambda text: _post(f"a:\n  db-password: {text}\nb: 1\n"),
}


def _post(body: str) -> bytes:
    return f"POST / HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


TEXTS = st.text("abcdefXYZ123456789_", min_size=8, max_size=40)
"""None of them looks as if it was blanked before (see ``header_block``)."""


@settings(max_examples=200, deadline=None)
@given(
    texts=st.lists(TEXTS, min_size=1, max_size=3),
    places=st.lists(st.sampled_from(list(PLACES)), min_size=2, max_size=6),
    seed=st.integers(0, 1 << 30),
)
def test_fingerprints_are_equal_if_and_only_if_the_texts_are(
    texts: list[str], places: list[str], seed: int
) -> None:
    one = Rules(defaults=True, patterns=[regex.compile(rb"(?<=<)[\w]{8,40}(?=>)")])
    chosen = random.Random(seed)
    by_text: dict[str, set[str | None]] = {}
    for place in places:
        text = chosen.choice(texts)
        [secret] = [
            secret
            for _, secret in marks(cut([(WRITE, PLACES[place](text))], chosen), one)
            if secret.fingerprint is not None
        ]
        by_text.setdefault(text, set()).add(secret.fingerprint)
    assert all(len(found) == 1 for found in by_text.values())
    assert len(set[object]().union(*by_text.values())) == len(by_text)


@settings(max_examples=50, deadline=None)
@given(text=TEXTS, place=st.sampled_from(list(PLACES)))
def test_a_fingerprint_is_of_one_run(text: str, place: str) -> None:
    sent: list[Step] = [(WRITE, PLACES[place](text))]
    patterns = [regex.compile(rb"(?<=<)[\w]{8,40}(?=>)")]
    first, second = (marks(sent, Rules(defaults=True, patterns=patterns)) for _ in range(2))
    names = [{secret._replace(fingerprint=None) for _, secret in each} for each in (first, second)]
    assert names[0] == names[1]
    prints = [{secret.fingerprint for _, secret in each} - {None} for each in (first, second)]
    assert prints[0].isdisjoint(prints[1])
