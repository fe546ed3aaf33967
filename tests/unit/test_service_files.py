"""The files of docs/service: those who read them find nothing wrong in them."""

import subprocess
import sys
from pathlib import Path

import pytest

from sslsniff.cli.agent.configuration import read

SERVICE = Path(__file__).parents[2] / "docs" / "service"
MOST_EXPOSED = 30
"""Tenths, as ``systemd-analyze security`` counts: up to 4.9 it says OK."""


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """Return the unit with a program that is there."""
    text = (SERVICE / "sslsniff.service").read_text()
    path = tmp_path / "sslsniff.service"
    path.write_text(text.replace("/opt/sslsniff/bin/sslsniff", "/bin/true"))
    return path


@pytest.mark.heavy
def test_the_unit_is_right(unit: Path) -> None:
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.heavy
def test_a_wrong_unit_would_be_found(unit: Path) -> None:
    unit.write_text(unit.read_text().replace("ProtectClock=", "ProtectClocks="))
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True)
    assert "ProtectClocks" in done.stderr


@pytest.mark.heavy
def test_the_unit_has_few_rights(unit: Path) -> None:
    command = ["systemd-analyze", "security", "--offline=true", f"--threshold={MOST_EXPOSED}"]
    done = subprocess.run([*command, unit], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("tool", "arguments", "file"),
    [
        ("kubernetes-validate", ("--strict",), "daemonset.yaml"),
        ("hadolint", (), "Containerfile"),
    ],
)
def test_other_files(tool: str, arguments: tuple[str, ...], file: str) -> None:
    program = Path(sys.executable).with_name(tool)
    done = subprocess.run([program, *arguments, SERVICE / file], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_agents_file() -> None:
    assert read(str(SERVICE / "agent.toml")).tables == Path("/var/lib/sslsniff/tables")


def test_the_agents_file_in_the_daemon_set(tmp_path: Path) -> None:
    lines = (SERVICE / "daemonset.yaml").read_text().splitlines()
    begins = lines.index("  agent.toml: |") + 1
    file = tmp_path / "agent.toml"
    file.write_text("\n".join(line[4:] for line in lines[begins : lines.index("---", begins)]))
    assert read(str(file)).arguments[0] == "--all"
