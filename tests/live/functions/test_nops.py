"""Nops that kernels since 6.18 make calls of: a probe there must not change what a program does."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sslsniff.core.errors import KernelError
from sslsniff.elf.elf_file import Elf
from sslsniff.kernel.loaders.libbpf import LibbpfLoader
from sslsniff.kernel.probe_safety.nop_trial import is_kept_intact
from sslsniff.kernel.probe_safety.optimised_nops import optimised_nop
from tests.live.functions.tracing import PROGRAMS, Trace, build, show, trace

SOURCE = "nops.c"
NOP5 = bytes.fromhex("0f1f440000")
CALLS = 20
INTACT = "0 wrong, child 0\n"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(SOURCE, tmp_path_factory.mktemp("nops"), "-O1")


def address_of(program: Path, symbol: str) -> int:
    listed = subprocess.run(["nm", program], check=True, capture_output=True, text=True).stdout
    [found] = re.findall(rf"^(\w+) \w {symbol}$", listed, re.MULTILINE)
    return int(found, 16)


def line() -> int:
    text = (PROGRAMS / SOURCE).read_text("utf-8").splitlines()
    return next(at for at, each in enumerate(text, 1) if "/* LINE */" in each)


def arguments(traced: Trace) -> list[list[object]]:
    assert traced.stdout == INTACT, traced.stderr
    assert traced.code == 0
    return [[*each["args"].values()] for each in traced.calls()]


EXPECTED = range(1, CALLS + 2)
"""The last one is the child's."""


@pytest.mark.parametrize("site", ["nop_site", "long_nop_site"])
def test_an_address(program: Path, site: str) -> None:
    traced = trace(program, "--address", hex(address_of(program, site)), "--", str(CALLS))
    assert traced.stdout == INTACT
    values = [each["args"]["rdi"]["value"] for each in traced.calls()]
    assert values == [hex(each) for each in EXPECTED]


def test_a_static_probe(program: Path) -> None:
    traced = trace(program, "--usdt", "nops:leaf", "--", str(CALLS))
    assert arguments(traced) == [[each, 77] for each in EXPECTED]


def test_a_line(program: Path) -> None:
    traced = trace(program, "--line", f"{SOURCE}:{line()}", "--", str(CALLS))
    assert traced.stdout == INTACT
    assert [each["args"]["twice"] for each in traced.calls()] == [2 * each for each in EXPECTED]


@pytest.mark.parametrize("returns", ["instructions", "trampoline"])
def test_a_function_that_begins_with_one(program: Path, returns: str) -> None:
    options = ("^at_the_entry$", "--results", "--returns", returns)
    traced = trace(program, *options, "--", str(CALLS))
    assert arguments(traced) == [[each] for each in EXPECTED]
    assert [each["result"] for each in traced.calls()] == [*EXPECTED]


@pytest.mark.parametrize("site", ["loop_site", "far_site"])
def test_a_place_that_nothing_can_stand_for_is_refused_by_name(program: Path, site: str) -> None:
    """Where the kernel passes the trial, the nop itself is probed."""
    address = address_of(program, site)
    shown = show(program, "--address", hex(address), "--", str(CALLS))
    if is_kept_intact(NOP5):
        assert INTACT in shown.stdout
        assert f"{CALLS + 1} calls" in shown.stderr
    else:
        function = {"loop_site": "before_a_loop", "far_site": "reached_from_afar"}[site]
        assert re.search(rf"{function}\+0x\w+: not probed: this kernel replaces", shown.stderr)
        assert shown.returncode == 1
        assert shown.stdout == ""
    others = ("--usdt", "nops:leaf", "--", str(CALLS))
    traced = trace(program, "--address", hex(address), *others)
    assert len(traced.calls("nops:leaf")) == CALLS + 1
    assert traced.stdout == INTACT


@pytest.fixture
def loader() -> Iterator[LibbpfLoader]:
    made = LibbpfLoader(1 << 16, programs=("process_", "c_return"))
    yield made
    made.close()


def test_what_attaches_all_probes_refuses_one(program: Path, loader: LibbpfLoader) -> None:
    """All probes of captures, key logs and traces are attached by this one method."""
    with Elf(str(program)) as elf:
        offset = elf.offset(address_of(program, "nop_site"))
    code = program.read_bytes()[offset:]
    assert optimised_nop(code) == NOP5

    def attach() -> None:
        loader.attach_uprobes("c_return", str(program), [offset], is_return=False, cookies=[0])()

    if is_kept_intact(NOP5):
        attach()
    else:
        with pytest.raises(KernelError, match=rf"cannot probe {offset:#x}: this kernel replaces"):
            attach()
