"""The programs in examples/ do what they say."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.tools

ROOT = Path(__file__).parents[2]
CAPTURE = "pcaps/http1-keep-alive.pcapng"


def output(name: str, *arguments: str) -> list[str]:
    """Return the lines that an example prints."""
    command = [sys.executable, "-W", "error", f"examples/{name}", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_all_are_listed_and_have_tests() -> None:
    names = {path.name for path in (ROOT / "examples").glob("*.py")}
    listed = (ROOT / "examples/README.md").read_text()
    assert all(f"| `{name}` |" in listed for name in names)
    assert names == {"slowest.py", "hosts.py", "to_csv.py", "own_bytes.py", "alert.py"}


def test_slowest() -> None:
    first, second = output("slowest.py", CAPTURE, "2")
    assert first.endswith(" ms  200  GET https://localhost:38697/hello")
    assert float(first.split()[0]) >= float(second.split()[0])


def test_hosts() -> None:
    assert [line.split()[:3] for line in output("hosts.py", CAPTURE)] == [
        ["curl", "localhost", "17"]
    ]


def test_to_csv() -> None:
    head, first, *_ = output("to_csv.py", CAPTURE)
    assert head == "time,process,protocol,method,url,status,response bytes,error"
    assert first.endswith(",curl,http/1.1,GET,https://localhost:38697/hello,200,18,")


def test_own_bytes() -> None:
    assert output("own_bytes.py") == ['https://api.example/health 200 {"status":"ok"}']
