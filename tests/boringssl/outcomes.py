"""What was found in each build, kept in files: an interrupted run goes on where it was.

A file is believed as long as neither the code that finds and judges nor the programs change.
"""

import hashlib
import pickle
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TypeVar

from tests.workload.boringssl.builds import Built
from tests.workload.boringssl.releases import CACHE

_Outcome = TypeVar("_Outcome")

_FOLDER = CACHE / "outcomes"
_ROOT = Path(__file__).parents[2]
_JUDGING = ("damage", "judging", "outcomes", "variants", "__main__")


def kept(made_by: Callable[[], _Outcome], built: Built, *inputs: object) -> _Outcome:
    """Return what ``made_by`` returns for a program and ``inputs``, from its file if there is one.

    Only this program writes these files.
    """
    programs = b"".join(each.read_bytes() for each in built)
    name = hashlib.sha256(repr(inputs).encode() + programs).hexdigest()
    path = _FOLDER / _code() / name
    if path.exists():
        found: _Outcome = pickle.loads(path.read_bytes())
        return found
    made = made_by()
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_bytes(pickle.dumps(made))
    part.rename(path)
    return made


def remove_outdated(*, even_current: bool = False) -> None:
    """Remove the files of other code, and of this one, too, if all is to be searched again."""
    for folder in _FOLDER.glob("*"):
        if even_current or folder.name != _code():
            shutil.rmtree(folder)


@cache
def _code() -> str:
    """Return what names the code that decides an outcome."""
    found = hashlib.sha256()
    for path in sorted(_sources()):
        found.update(path.read_bytes())
    return found.hexdigest()[:16]


def _sources() -> Iterator[Path]:
    for folder in ("elf", "machine_code", "probing"):
        yield from (_ROOT / "sslsniff" / folder).rglob("*.py")
        yield from (_ROOT / "sslsniff" / folder).rglob("*.c")
    yield from (Path(__file__).with_name(f"{each}.py") for each in _JUDGING)
