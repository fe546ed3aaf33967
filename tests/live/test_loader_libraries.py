"""One line says that the library of a BPF loader is missing or damaged, with a remedy."""

import json
import re
from pathlib import Path

import pytest

from sslsniff.kernel import procfs
from tests.live.refusals import assert_told, sniff, with_empty_file, without_library
from tests.workload.processes import run

MISSING_LIBBPF = "libbpf missing"
_BCC_MODULE = Path("/usr/lib/python3/dist-packages/bcc/libbcc.py")


def host(name: str) -> tuple[str | Path, ...]:
    """Return what runs a command on such a host."""
    libraries = dict(procfs.libraries())
    return {
        MISSING_LIBBPF: without_library(libraries["libbpf.so.1"]),
        "libbpf damaged": with_empty_file(libraries["libbpf.so.1"]),
        "libbcc damaged": with_empty_file(libraries["libbcc.so.0"]),
        "bcc damaged": with_empty_file(_BCC_MODULE),
    }[name]


FACTS = {
    MISSING_LIBBPF: "libbpf.so.1, which libbcc needs, is not installed",
    "libbpf damaged": "libbpf.so.1, which libbcc needs, cannot be loaded (file too short)",
    "libbcc damaged": "libbcc.so.0 cannot be loaded (file too short)",
    "bcc damaged": "the Python module bcc cannot be imported (",
}


@pytest.mark.parametrize(("name", "fact"), FACTS.items())
def test_doctor(name: str, fact: str) -> None:
    done = sniff("doctor", "--json", before=host(name))
    assert done.stderr == ""
    found = {each["what"]: each for each in json.loads(done.stdout)["findings"]}
    assert fact in found["bcc"]["fact"]
    assert re.search(r"install .*\(Debian: apt install .+\)", found["bcc"]["remedy"])
    assert found["libbpf"]["ok"] is not name.startswith("libbpf")
    assert done.returncode == (1 if name.startswith("libbpf") else 0)
    table = sniff("doctor", before=host(name))
    assert table.stderr == ""
    assert "sslsniff can" in table.stdout.splitlines()[-1]


@pytest.mark.parametrize(("name", "fact"), FACTS.items())
def test_capture_through_bcc(name: str, fact: str, bystander: str) -> None:
    assert_told(sniff("--loader", "bcc", "--pid", bystander, before=host(name)), re.escape(fact))


def test_trace_without_libbpf(tmp_path: Path) -> None:
    """It says so before what it plans, and starts nothing."""
    program = tmp_path / "program"
    program.with_suffix(".c").write_text('int main(void) { return !__builtin_puts("ran"); }\n')
    run("gcc", "-g", "-o", program, program.with_suffix(".c"))
    done = sniff("trace", program, "main", before=host(MISSING_LIBBPF))
    assert_told(done, "libbpf.so.1 is not installed")
    assert done.stdout == ""
