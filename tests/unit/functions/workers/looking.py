"""What the kernel says about workers, and programs for them to look into."""

import subprocess
from pathlib import Path

from sslsniff.functions.workers.file_reader import FileReaders

FUNCTIONS = Path("tests/workload/functions").absolute()


def status(pid: int) -> dict[str, str]:
    """Return the fields of a process's status; empty: it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return {}
    return {name: value.strip() for name, _, value in (each.partition(":") for each in lines)}


def workers(readers: FileReaders) -> list[int]:
    """Return the process ids of the workers."""
    pid = readers._process.pid
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def opened(pid: int) -> set[str]:
    """Return the names of what a process has open."""
    files = Path(f"/proc/{pid}/fd").iterdir()
    return {each.readlink().name.partition(":")[0] for each in files}


def built(folder: Path, source: str, *flags: str) -> Path:
    """Compile one of the programs with debug info into a folder; return its path."""
    path = FUNCTIONS / source
    program = folder / path.stem
    compiler = {".c": "gcc", ".cpp": "g++"}[path.suffix]
    subprocess.run([compiler, "-g", *flags, path, "-o", program], check=True)
    return program
