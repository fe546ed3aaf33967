"""Each header in C includes what it needs, so that an editor can read it by itself."""

import subprocess
from pathlib import Path

import pytest

from sslsniff.kernel.loaders.bcc_loader import source_text
from tests.workload.compiler import ZIG

pytestmark = pytest.mark.tools

ROOT = Path(__file__).parents[2]
WARNINGS = ("-O2", "-g", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function")
UNUSED = ("-Wno-unused-variable", "-Wno-unused-const-variable", "-Wno-undefined-internal")
TARGETS = {
    "bpf/*.bpf.h": ("-target", "bpfel-freestanding", "-mcpu=v3"),
    "preload/*.h": ("-target", "x86_64-linux-gnu.2.17", "-fPIC", "-D_GNU_SOURCE"),
}
HEADERS = [(path, flags) for found, flags in TARGETS.items() for path in sorted(ROOT.glob(found))]


@pytest.mark.heavy
@pytest.mark.parametrize(("header", "target"), HEADERS, ids=[path.name for path, _ in HEADERS])
def test_a_header_compiles_by_itself(header: Path, target: tuple[str, ...], tmp_path: Path) -> None:
    source = tmp_path / "alone.c"
    source.write_text(f'#include "{header.name}"\n')
    command = [*ZIG, "cc", *WARNINGS, *UNUSED, *target]
    command += ["-Ibpf", "-Ipreload", "-c", str(source), "-o", str(tmp_path / "alone.o")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_bcc_gets_each_header_once_and_its_own_in_the_place_of_kernel_h() -> None:
    text = source_text()
    assert '#include "' not in text
    assert "#pragma once" not in text
    assert text.count("struct config {") == text.count("enum event_kind {") == 1
    assert "#define MAP_RING(name, bytes) BPF_RINGBUF_OUTPUT" in text
    assert "preserve_access_index" not in text
