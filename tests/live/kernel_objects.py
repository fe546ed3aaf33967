"""What a process holds in the kernel: BPF programs, maps and links; as bpftool shows them."""

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.workload.processes import PATIENCE_S

_KINDS = {"prog_id": "prog", "map_id": "map", "link_id": "link"}
Objects = set[tuple[str, int]]
"""Kind and number of each object."""


def objects(pid: int) -> Objects:
    """Return the objects to which a process has descriptors."""
    found = set()
    for each in Path(f"/proc/{pid}/fdinfo").iterdir():
        for line in each.read_text().splitlines():
            name, _, value = line.partition(":")
            if name in _KINDS:
                found.add((_KINDS[name], int(value)))
    return found


def alive(held: Objects) -> Objects:
    """Return those that the kernel has still."""
    return {each for each in held if _show(*each) is not None}


def entries(pid: int, *names: str) -> dict[str, int]:
    """Return how many entries the maps of these names have that a process holds."""
    return {name: len(_bpftool("map", "dump", "id", _map(pid, name))) for name in names}


def contents(pid: int, name: str) -> dict[bytes, bytes]:
    """Return the entries of a map that a process holds."""
    dump = _bpftool("map", "dump", "id", _map(pid, name))
    return {_as_bytes(each["key"]): _as_bytes(each["value"]) for each in dump}


def overwrite(pid: int, name: str, key: bytes, value: bytes) -> None:
    """Write an entry of a map that a process holds."""
    number = ("id", _map(pid, name))
    entry = ("key", "hex", *key.hex(" ").split(), "value", "hex", *value.hex(" ").split())
    assert "error" not in (_bpftool("map", "update", *number, *entry) or {})


def _map(pid: int, name: str) -> str:
    """Return the number of a map."""
    maps = (number for kind, number in objects(pid) if kind == "map")
    return str(next(each for each in maps if (_show("map", each) or {}).get("name") == name))


def _as_bytes(shown: list[str]) -> bytes:
    return bytes(int(each, 16) for each in shown)


def names(pid: int, kind: str) -> list[str]:
    """Return the names of the programs ("prog") or maps ("map") that a process holds."""
    shown = (_show(*each) for each in objects(pid) if each[0] == kind)
    return sorted(each["name"] for each in shown if each is not None)


def _show(kind: str, number: int) -> dict[str, Any] | None:
    shown = _bpftool(kind, "show", "id", str(number))
    return None if "error" in shown else shown


def _bpftool(*arguments: str) -> Any:
    done = subprocess.run(
        ["/usr/sbin/bpftool", "--json", *arguments], capture_output=True, timeout=PATIENCE_S
    )
    return json.loads(done.stdout)
