"""Every capture in pcaps/ decodes to the JSON lines beside it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PCAPS = Path(__file__).parent.parent.parent / "pcaps"
SSLSNIFF = Path(sys.executable).with_name("sslsniff")
CAPTURES = sorted(PCAPS.glob("*.pcap*"))


def read(capture: Path) -> list[dict[str, object]]:
    done = subprocess.run(
        [SSLSNIFF, "read", capture, "--json"], check=True, capture_output=True, text=True
    )
    assert done.stderr == ""
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_a_capture_decodes_to_its_lines(capture: Path) -> None:
    expected = capture.with_suffix(".expected.jsonl").read_text("utf-8").splitlines()
    assert read(capture) == [json.loads(line) for line in expected]


def test_there_are_captures() -> None:
    assert len(CAPTURES) >= 3


@pytest.mark.slow
def test_unknown_headers_are_null_and_never_wrong() -> None:
    lines = read(PCAPS / "http2-joined-in-the-middle.pcapng")
    targets = [line["request"]["target"] for line in lines if line["type"] == "exchange"]  # type: ignore[index]
    assert targets == [None, "/after/1", "/bytes/2000", "/after/2"]
