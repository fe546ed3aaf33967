"""The workers of files that are read, and programs for them to look into."""

import subprocess
from pathlib import Path

from sslsniff.functions.workers.file_reader import FileReaders
from tests.unit.analysis.worker_status import workers_of

FUNCTIONS = Path("tests/workload/functions").absolute()


def workers(readers: FileReaders) -> list[int]:
    """Return the process ids of the workers."""
    return workers_of(readers._process)


def built(folder: Path, source: str, *flags: str) -> Path:
    """Compile one of the programs with debug info into a folder; return its path."""
    path = FUNCTIONS / source
    program = folder / path.stem
    compiler = {".c": "gcc", ".cpp": "g++"}[path.suffix]
    subprocess.run([compiler, "-g", *flags, path, "-o", program], check=True)
    return program
