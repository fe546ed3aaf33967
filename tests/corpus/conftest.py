"""Corpora that are not part of the repository: public test cases that nobody here wrote."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3] / "shared" / "corpora"
_SOURCES = {
    "curl": "tests/data of github.com/curl/curl",
    "hpack-test-case": "github.com/http2jp/hpack-test-case",
    "http2-frame-test-case": "github.com/http2jp/http2-frame-test-case",
    "llhttp": "test/*.md of github.com/nodejs/llhttp",
    "nghttp2-fuzz": "fuzz/corpus of github.com/nghttp2/nghttp2",
}


def corpus(name: str) -> Path:
    """Return a corpus's folder; skip the test, or the module, where it is not there."""
    folder = ROOT / name
    if not folder.is_dir():
        why = f"the corpus {name} is not there: put {_SOURCES[name]} into {folder}"
        pytest.skip(why, allow_module_level=True)
    return folder
