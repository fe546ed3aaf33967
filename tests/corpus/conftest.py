"""Corpora that are not part of the repository: public test cases that nobody here wrote."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3] / "shared" / "corpora"


def corpus(name: str) -> Path:
    """Return a corpus's folder; skip the test, or the module, where it is not there."""
    folder = ROOT / name
    if not folder.is_dir():
        pytest.skip(f"the corpus {name} is not at {ROOT}", allow_module_level=True)
    return folder
