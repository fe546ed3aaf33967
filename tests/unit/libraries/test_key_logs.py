"""Where secrets are seen in libraries; tests/live/secrets compares them with what passes."""

import random
import re
from pathlib import Path

import pytest

from sslsniff.core.errors import ElfError
from sslsniff.elf.elf_file import Elf
from sslsniff.libraries.supported import LIBRARIES
from sslsniff.matching.key_log.chains import Chain
from sslsniff.matching.key_log.labelled_function import labelled_function
from sslsniff.matching.probe_set import KeyLog, UnfitError
from tests import libraries
from tests.live.stripped.test_boringssl import BUN
from tests.unit.analysis.test_attachments import compiled
from tests.workload.go.fixtures import BEFORE, NEWEST, OLDEST, Fixture

RANDOMS = {
    "1.1.1": Chain("rdi", (168,), 184),
    "3.0": Chain("rdi", (), 352),
    "3.5": Chain("rdi", (), 392),
    "3.6": Chain("rdi", (), 392),
    "4.0": Chain("rdi", (), 392),
}
"""Where OpenSSL's objects have the client random, as its headers say."""

LOGS = """
typedef unsigned char u8;
struct connection {{ long unused; struct {{ long unused; u8 random[32]; }} *inner; void *wants; }};
int write_line(struct connection *, const char *, const u8 *, long, const u8 *, long);
__attribute__((noinline, visibility("hidden")))
int log_secret(struct connection *it, const char *label, const u8 *secret, long size)
{{
    if (!it->wants) return 1;
    return write_line(it, label, it->inner->random, {size}, secret, size) + 1;
}}
int first(struct connection *it, const u8 *secret)
{{
    return log_secret(it, "{first}", secret, 48) + 2;
}}
int second(struct connection *it, const u8 *secret)
{{
    return log_secret(it, "{second}", secret, 32) + 3;
}}
"""


def key_log(path: str | Path, library: str) -> KeyLog:
    with Elf(str(path)) as elf:
        return next(each for each in LIBRARIES if each.id == library).find_key_log(elf)


def random_in(path: str | Path, library: str) -> Chain:
    """Return where the client random is, at the one place where all secrets are seen."""
    found = key_log(path, library)
    assert found.missing == ""
    [place] = found.places
    return place.random


def missing(path: str | Path, library: str) -> str:
    """Return why no secret can be seen."""
    found = key_log(path, library)
    assert found.places == ()
    return found.missing


@pytest.mark.tools
@pytest.mark.parametrize("series", libraries.OPENSSL)
def test_openssl(series: str) -> None:
    assert random_in(libraries.library(series).path, "openssl") == RANDOMS[series]


@pytest.mark.tools
@pytest.mark.parametrize("series", libraries.GNUTLS)
def test_gnutls(series: str) -> None:
    assert random_in(libraries.library(series).path, "gnutls") == Chain("rdi", (), 80)


@pytest.mark.heavy
def test_boringssl_without_symbols() -> None:
    assert random_in(BUN, "boringssl") == Chain("rdi", (48,), 48)


@pytest.mark.heavy
@pytest.mark.parametrize("release", [OLDEST, NEWEST])
def test_go(release: str) -> None:
    mode = "stripped" if release == OLDEST else "plain"
    assert random_in(Fixture("client", release, mode).path, "go") == Chain("rdi")


@pytest.mark.heavy
def test_go_that_passes_arguments_on_the_stack() -> None:
    [place] = key_log(Fixture("client", BEFORE, "stripped").path, "go").places
    assert place[1:] == tuple(Chain("rsp", (each,)) for each in (16, 24, 32, 56, 64))


@pytest.mark.tools
@pytest.mark.parametrize("library", ["libressl", "mbedtls", "nss", "s2n", "wolfssl"])
def test_a_library_without_says_why(library: str, tmp_path: Path) -> None:
    path = compiled(tmp_path, "int nothing(void) { return 1; }")
    reason = missing(path, library)
    assert re.search("no key log|only for a program|only to a program", reason)


@pytest.mark.tools
def test_two_labels_are_needed(tmp_path: Path) -> None:
    code = LOGS.format(size=32, first="CLIENT_RANDOM", second="EXPORTER_SECRET")
    assert random_in(compiled(tmp_path, code), "openssl") == Chain("rdi", (8,), 8)
    code = LOGS.format(size=32, first="CLIENT_RANDOM", second="ANOTHER_TEXT")
    reason = missing(compiled(tmp_path, code), "openssl")
    assert reason == "the function that gets its secrets was not found"


@pytest.mark.tools
def test_the_client_random_has_32_bytes(tmp_path: Path) -> None:
    code = LOGS.format(size="size", first="CLIENT_RANDOM", second="EXPORTER_SECRET")
    reason = missing(compiled(tmp_path, code), "openssl")
    assert reason == "where its connections have the client random was not found"


@pytest.mark.heavy
def test_damaged_copies(tmp_path: Path) -> None:
    """Either the same function, or none: never one that another text leads to."""
    whole = libraries.library(libraries.OPENSSL[0]).path
    with Elf(str(whole)) as elf:
        right = labelled_function(elf)
    chance = random.Random(20)
    data = Path(whole).read_bytes()
    path = tmp_path / "damaged.so"
    found = 0
    for _ in range(40):
        copy = bytearray(data)
        for _ in range(200):
            copy[chance.randrange(64, len(copy))] = chance.randrange(256)
        path.write_bytes(copy)
        try:
            with Elf(str(path)) as elf:
                assert labelled_function(elf) == right
                found += 1
        except (ElfError, UnfitError):
            pass
    assert 0 < found < 40  # else the damage was nowhere that matters, or everywhere
