"""``sslsniff stats`` and ``--stats`` on capture files."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sslsniff.statistics.outcome import Outcome
from tests.terminal import shown_on_terminal
from tests.unit.captures import READ, WRITE, Taker, answer, get

pytestmark = pytest.mark.slow

SSLSNIFF = Path(sys.executable).with_name("sslsniff")
PCAPS = Path(__file__).parents[3] / "pcaps"
CAPTURES = sorted(PCAPS.glob("*.pcap*"))
KEEP_ALIVE = PCAPS / "http1-keep-alive.pcapng"


def run(*arguments: str | Path, code: int = 0) -> tuple[str, str]:
    done = subprocess.run([SSLSNIFF, *arguments], capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return done.stdout, done.stderr


def objects(*arguments: str | Path) -> list[dict[str, Any]]:
    out, _ = run(*arguments, "--json")
    return [json.loads(line) for line in out.splitlines()]


def expected(capture: Path) -> list[Outcome]:
    lines = capture.with_suffix(".expected.jsonl").read_text("utf-8").splitlines()
    made = [json.loads(line) for line in lines]
    return [Outcome.of_json(each) for each in made if each["type"] == "exchange"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "capture.pcapng"


@pytest.mark.heavy
@pytest.mark.parametrize("capture", CAPTURES, ids=lambda each: each.stem)
@pytest.mark.parametrize("keys", ["host,path", "comm,pid", "status,protocol", "method,model,error"])
def test_every_capture(capture: Path, keys: str) -> None:
    """What is counted is what the capture's JSON lines say, one by one."""
    outcomes = expected(capture)
    if not outcomes:  # another protocol
        text, errors = run("stats", capture, "--group-by", keys)
        assert (text.splitlines()[0], errors) == ("no exchanges", "")
        return
    *rows, whole, summary = objects("stats", capture, "--group-by", keys)
    names = keys.split(",")
    counted = {tuple(row["group"][name] for name in names): row["exchanges"] for row in rows}
    assert counted == Counter(tuple(getattr(each, name) for name in names) for each in outcomes)
    assert (whole["group"], whole["exchanges"]) == ({}, len(outcomes))
    assert whole["response_bytes"] == sum(each.response_bytes for each in outcomes)
    assert whole["total_ms"]["max"] == max(each.duration_ns or 0 for each in outcomes) / 1e6
    assert whole["rate"] == pytest.approx(len(outcomes) / summary["duration_s"], rel=0.001)
    text, errors = run("stats", capture, "--group-by", keys)
    assert errors == ""
    is_unknown = any(None in (each.duration_ns, each.first_byte_ns) for each in outcomes)
    assert ("times are known of" in text) == is_unknown
    assert len(text.splitlines()) == 2 + len(rows) + 3 + is_unknown


def test_a_filter() -> None:
    whole, summary = objects("stats", KEEP_ALIVE, "~m POST")[-2:]
    assert (whole["exchanges"], summary["exchanges"], summary["shown"]) == (1, 3, 1)
    text, _ = run("stats", KEEP_ALIVE, "~m PATCH")
    assert text.splitlines()[0] == "no exchanges"
    assert text.splitlines()[1].startswith("0 shown of 3 exchanges")


@pytest.mark.heavy
def test_reading_shows_exchanges_then_the_table() -> None:
    plain, _ = run("read", KEEP_ALIVE)
    table, _ = run("stats", KEEP_ALIVE)
    both, _ = run("read", KEEP_ALIVE, "--stats")
    *exchanges, summary = plain.splitlines()
    assert table.splitlines()[-1] == summary
    assert both.splitlines() == [*exchanges, *table.splitlines()]
    # To say what to group by is to ask for the table.
    assert run("read", KEEP_ALIVE, "--group-by", "host,method,path") == (both, "")


def test_reading_as_json_has_statistics_before_the_summary() -> None:
    kinds = [each["type"] for each in objects("read", KEEP_ALIVE, "--stats")]
    plain = [each["type"] for each in objects("read", KEEP_ALIVE)]
    assert kinds == [*plain[:-1], *["statistics"] * 4, "summary"]
    quiet = [each["type"] for each in objects("read", KEEP_ALIVE, "--stats", "--quiet")]
    assert quiet == ["statistics"] * 4 + ["summary"]
    assert [each["type"] for each in objects("read", KEEP_ALIVE, "-q")] == ["summary"]


@pytest.mark.heavy
def test_beside_another_output(tmp_path: Path) -> None:
    out, err = run("read", KEEP_ALIVE, "--stats", "--har", tmp_path / "out.har")
    assert (out, err.splitlines()[0].split()) == ("", ["first", "byte", "total"])
    assert err.splitlines()[-1].startswith("3 exchanges")
    table = tmp_path / "table.txt"
    assert run("stats", KEEP_ALIVE, "-o", table) == ("", "")
    assert table.read_text() == run("stats", KEEP_ALIVE)[0]
    _, err = run("stats", KEEP_ALIVE, "-o", table, code=1)
    assert err == (
        f"sslsniff: {table} exists already: name another file, or overwrite with --force\n"
    )


@pytest.mark.heavy
@pytest.mark.parametrize("columns", [80, 200])
def test_on_a_terminal(columns: int) -> None:
    lines = shown_on_terminal(columns, SSLSNIFF, "stats", KEEP_ALIVE)
    assert max(map(len, lines)) <= columns
    assert len(lines) == (2 + 3 * 4 + 2 if columns == 80 else 2 + 4 + 2)


@pytest.mark.heavy
def test_an_unknown_key() -> None:
    out, err = run("stats", KEEP_ALIVE, "--group-by", "host,hots", code=2)
    assert (out, err.splitlines()[-1]) == (
        "",
        "sslsniff stats: argument --group-by: 'hots' is none of host, path, comm, pid,"
        " role, server, sni, status, protocol, method, model, error, run,"
        " raw_path, secret",
    )
    _, err = run("stats", KEEP_ALIVE, "--group-by", "", code=2)
    assert "'' is none of host, path" in err


@pytest.mark.heavy
def test_an_empty_file(path: Path) -> None:
    path.touch()
    [out, err] = run("stats", path, code=1)
    assert (out, err) == ("", run("read", path, code=1)[1])
    assert err.startswith(f"sslsniff: {path}")
    assert len(err.splitlines()) == 1


@pytest.mark.heavy
def test_a_capture_without_an_exchange(path: Path) -> None:
    taker = Taker(path)
    taker.take([(WRITE, b"nothing"), (READ, b"that is HTTP")], alpn=None)
    taker.close()
    text, err = run("stats", path)
    assert text.splitlines()[0] == "no exchanges"
    assert err == run("read", path)[1]
    whole, summary = objects("stats", path)
    assert (whole["exchanges"], summary["exchanges"]) == (0, 0)


@pytest.mark.heavy
def test_a_damaged_capture(path: Path) -> None:
    """What is whole is counted; what is said is what ``read`` says."""
    path.write_bytes(KEEP_ALIVE.read_bytes()[:-700])
    text, err = run("stats", path)
    assert err == run("read", path)[1] != ""
    assert text.splitlines()[-1] == run("read", path)[0].splitlines()[-1]


@pytest.mark.heavy
def test_what_was_lost_and_what_was_open(path: Path) -> None:
    taker = Taker(path)
    taker.take([(WRITE, get("/a")), (READ, answer(b"x" * 100)[:-60]), (READ, 60)])
    opened = taker.open()
    taker.pass_steps(opened, [(WRITE, get("/b"))])
    taker.close()
    text, _ = run("stats", path)
    assert "60 bytes of bodies are missing: see what was lost\n" in text
    assert "1 exchange still open at the end\n" in text
    assert "\nlost for ring full: 1 time, 60 bytes\n" in text
    *_, whole, loss, summary = objects("stats", path)
    assert (whole["missing_bytes"], whole["open"], whole["errors"]) == (60, 1, 0)
    assert (whole["first_byte_ms"]["count"], whole["total_ms"]["count"]) == (1, 1)
    assert (loss["type"], loss["bytes"], summary["lost_bytes"]) == ("loss", 60, 60)


@pytest.mark.heavy
def test_a_hundred_thousand_paths(path: Path) -> None:
    """However many there are, a thousand have rows, and it is said how many have not."""
    count = 100_000
    words = [f"{n:x}".translate({48 + n: chr(103 + n) for n in range(10)}) for n in range(count)]
    taker = Taker(path)
    connection = taker.open()
    for at in range(0, count, 1000):
        batch = words[at : at + 1000]
        taker.pass_steps(connection, [(WRITE, b"".join(get(f"/\x1b{word}") for word in batch))])
        taker.pass_steps(connection, [(READ, answer(b"x") * 1000)])
    taker.end(connection)
    taker.close()
    text, _ = run("stats", path, "--group-by", "path")
    lines = text.splitlines()
    assert all(line.isprintable() for line in lines)
    assert len(lines) == 2 + 1000 + 2 + 3 + 1  # changes are searched in some groups only
    assert "these 99000 exchanges are in none of them" in text
    *rows, others, whole, _ = objects("stats", path, "--group-by", "path")
    assert len(rows) == 1000
    assert (others["exchanges"], whole["exchanges"]) == (99_000, count)
