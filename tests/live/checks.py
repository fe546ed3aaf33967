"""What the ends of a connection know of their traffic, to be compared with what was captured."""

import base64
import json
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.live import sniffer
from tests.live.sniffer import Captured
from tests.workload.passed import Passed, sha256
from tests.workload.processes import PATIENCE_S


def values(half: dict[str, Any], name: str) -> list[str]:
    """Return the values of a header; the case of its name is that of the wire."""
    return [value for key, value in half["headers"] if key.lower() == name]


def content(body: dict[str, Any]) -> bytes:
    """Return the bytes of a body as the JSON shows it, decoded if it was coded."""
    shown = body.get("decoded", body)
    data = shown["text"].encode() if "text" in shown else base64.b64decode(shown["base64"])
    assert len(data) == shown["size"]
    assert "truncated" not in shown
    return data


def seen(exchange: dict[str, Any]) -> Passed:
    """Return what an exchange says; it must be whole, and its answer that to its request."""
    request, response = exchange["request"], exchange["response"]
    assert exchange["error"] is None
    assert exchange["missing_bytes"] == 0
    assert exchange["duration_ms"] >= exchange["first_byte_ms"] >= 0
    [nonce] = values(request, "x-nonce")
    assert values(response, "x-nonce") == [nonce]
    return Passed(
        nonce=nonce,
        protocol=exchange["protocol"],
        method=request["method"],
        target=request["target"],
        status=response["status"],
        client=address(exchange["client"]),
        server=address(exchange["server"]),
        request_sha256=sha256(content(request["body"])),
        response_sha256=sha256(content(response["body"])),
    )


def address(shown: dict[str, Any] | None) -> tuple[str, int]:
    return ("unknown", 0) if shown is None else (shown["ip"], shown["port"])


def assert_whole(captured: Captured) -> None:
    """Nothing was lost, and nothing was left undecoded."""
    summary = captured.summary
    assert (summary["lost_events"], summary["lost_bytes"]) == (0, 0)
    assert captured.of("loss") == []
    assert captured.of("undecoded") == []
    assert summary["exchanges"] == len(captured.exchanges)


def assert_passed(
    captured: Captured,
    passed: Iterable[Passed],
    *,
    role: str,
    pid: int | None = None,
    library: str = "openssl",
) -> None:
    """The exchanges of ``role`` (and ``pid``, where it is given) are exactly ``passed``."""
    exchanges = [
        each for each in captured.exchanges if each["role"] == role and pid in {None, each["pid"]}
    ]
    assert sorted(map(seen, exchanges)) == sorted(passed)
    assert {each["library"] for each in exchanges} == {library}


def connections(captured: Captured, event: str = "opened", **facts: object) -> int:
    """Return how many connections were opened (or closed); each has these ``facts``."""
    events = [each for each in captured.of("connection") if each["event"] == event]
    for each in events:
        assert {name: each[name] for name in facts} == facts
        assert each["missing_bytes"] == 0
    return len(events)


@dataclass
class Ran:
    """A command that ran under sslsniff, and what sslsniff captured of it."""

    captured: Captured
    stdout: bytes


def run_under(
    directory: Path,
    *command: str | Path,
    options: Iterable[str] = (),
    stdin: bytes = b"",
    code: int = 0,
    engine: str = "auto",
) -> Ran:
    """Run ``sslsniff -- COMMAND``, which ends with ``code``."""
    output = directory / "captured.jsonl"
    how = ("--engine", engine, "--loader", sniffer.LOADER)
    done = subprocess.run(
        [*(sniffer.SSLSNIFF, "--json", "--force", *how, "-o", output), *options, "--", *command],
        input=stdin,
        capture_output=True,
        timeout=4 * PATIENCE_S,
    )
    lines = output.read_text("utf-8").splitlines() if output.exists() else []
    captured = Captured([json.loads(line) for line in lines], done.stderr.decode(), done.returncode)
    assert captured.code == code, captured.stderr
    return Ran(captured, done.stdout)


def read(capture: Path, *options: str | Path) -> Captured:
    """Return what ``sslsniff read`` makes of a capture, without a word of complaint."""
    done = subprocess.run(
        [sniffer.SSLSNIFF, "read", capture, "--json", *options],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return Captured([json.loads(line) for line in done.stdout.splitlines()], "", 0)


Sniff = Callable[..., Any]
"""The fixture ``sniff``."""

Record = Callable[[str, object], None]
"""pytest's fixture ``record_property``."""
