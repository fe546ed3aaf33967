"""Debian's packages from any of its suites, unpacked into folders, to test other versions.

apt checks them against Debian's keys; neither the system's sources nor its lists are touched.
"""

import fcntl
import re
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

CACHE = Path(__file__).parents[2] / ".cache"
_KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
_PATIENCE_S = 300


def unpack(
    suite: str, names: Iterable[str], folder: Path, architecture: str = "amd64"
) -> dict[str, str]:
    """Unpack packages of ``suite`` into ``folder``; return the version of each.

    Raises ``OSError`` or ``subprocess.SubprocessError`` where they cannot be had.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with _lists(suite, architecture) as options:
        run("apt-get", *options, "download", *names, cwd=folder)
    versions = {}
    for archive in folder.glob("*.deb"):
        run("dpkg-deb", "--extract", archive, folder)
        versions[archive.name.split("_")[0]] = run(
            "dpkg-deb", "--field", archive, "Version"
        ).strip()
        archive.unlink()
    return versions


def needs(suite: str, name: str, wanted: str) -> list[str]:
    """Return the packages that ``name`` depends on, of those that fit the expression ``wanted``."""
    with _lists(suite) as options:
        told = run("apt-cache", *options, "--important", "depends", name)
    return re.findall(rf"Depends: ({wanted})$", told, re.MULTILINE)


def unpack_headers(suite: str, release: str, folder: Path) -> Path:
    """Unpack the headers of a kernel of ``suite`` into ``folder``; return the folder for bcc."""
    own = f"linux-headers-{release}"
    unpack(suite, [own, _common(own)], folder)
    return merge_headers(folder / "usr/src", own, folder / "headers")


def merge_headers(sources: Path, own: str, merged: Path) -> Path:
    """Make one folder of links, ``merged``, of the two that kernel headers come in."""
    run("cp", "-rs", sources / _common(own), merged)
    run("cp", "-rsf", sources / own / "include", sources / own / "arch", merged)
    return merged


def _common(own: str) -> str:
    return own.removesuffix("amd64") + "common"


@contextmanager
def one_at_a_time(lock: Path) -> Iterator[None]:
    """Wait until no other process is in here with the same ``lock``, a file."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


@contextmanager
def _lists(suite: str, architecture: str = "amd64") -> Iterator[list[str]]:
    """Update the lists of ``suite``; give the options with which apt uses them and no others.

    No other process uses these lists meanwhile: an update takes away what a download reads.
    """
    state = CACHE / "apt" / (suite if architecture == "amd64" else f"{suite}-{architecture}")
    with one_at_a_time(state / "in_use"):
        options = _options(suite, architecture, state)
        run("apt-get", *options, "update")
        yield options


def _options(suite: str, architecture: str, state: Path) -> list[str]:
    """Return options that make apt know this one suite and keep its files in ``state``."""
    for name in ("lists/partial", "archives/partial"):
        (state / name).mkdir(parents=True, exist_ok=True)
    sources = state / "sources.list"
    sources.write_text(f"deb [signed-by={_KEYS}] {_mirror()} {suite} main\n")
    options = {
        "Dir::State": state,
        "Dir::State::status": "/dev/null",
        "Dir::Cache": state,
        "Dir::Etc::sourcelist": sources,
        "Dir::Etc::sourceparts": "-",
        "Dir::Etc::preferencesparts": "-",
        "Acquire::Check-Valid-Until": "false",  # a mirror may lag
        "Acquire::Languages": "none",
        "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
        "APT::Architecture": architecture,
        "APT::Update::Error-Mode": "any",
        "APT::Sandbox::User": "",
    }
    return ["-qq", *(f"-o{name}={value}" for name, value in options.items())]


@cache
def _mirror() -> str:
    """Return the mirror of Debian's main archive that this machine's apt uses."""
    what = ("Created-By: Packages", "Origin: Debian", "Label: Debian")
    return run("apt-get", "indextargets", "--format", "$(SITE)", *what).split()[0]


def run(*command: str | Path, cwd: Path | None = None) -> str:
    """Run a command that must succeed; return what it prints."""
    done = subprocess.run(
        command, cwd=cwd, check=True, capture_output=True, text=True, timeout=_PATIENCE_S
    )
    return done.stdout
