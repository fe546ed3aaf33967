"""s2n-tls, built from the sources in its crate, with Debian's libcrypto.

    python -m tests.workload.s2n [all]

Builds the release that ``make test-all`` needs, or all of them.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

CACHE = Path(__file__).parents[2] / ".cache" / "s2n"
NEWEST = "0.3.47"
CRATES = {"1.5.7": "0.3.5", "1.7.0": NEWEST}
"""Release of s2n-tls -> version of the crate s2n-tls-sys with its sources."""

_MANIFEST = """
[package]
name = "sources"
version = "0.0.0"
[lib]
path = "lib.rs"
[dependencies]
s2n-tls-sys = "={version}"
"""


def built(crate: str) -> Path:
    """Return the folder of what is built of a crate: ``lib/libs2n.so`` and ``include/s2n.h``."""
    return CACHE / crate


def build(crate: str) -> None:
    """Build it unless it is built. Raises ``subprocess.CalledProcessError``; the tools say why."""
    folder = built(crate)
    if (folder / "lib/libs2n.so").exists():
        return
    sources = _sources(crate, folder / "sources")
    made = folder / "build"
    options = ("-DCMAKE_BUILD_TYPE=Release", "-DBUILD_SHARED_LIBS=ON", "-DBUILD_TESTING=OFF")
    subprocess.run(["cmake", "-S", sources, "-B", made, *options], check=True)
    subprocess.run(["nice", "cmake", "--build", made, "-j", str(os.cpu_count())], check=True)
    (folder / "include").mkdir(exist_ok=True)
    shutil.copy(sources / "api/s2n.h", folder / "include")
    shutil.copytree(made / "lib", folder / "lib", symlinks=True)
    shutil.rmtree(made)


def _sources(crate: str, package: Path) -> Path:
    """Fetch a crate as the dependency of an empty package; return its sources in C."""
    package.mkdir(parents=True, exist_ok=True)
    (package / "lib.rs").touch()
    manifest = package / "Cargo.toml"
    manifest.write_text(_MANIFEST.replace("{version}", crate))
    command = ["cargo", "metadata", "--format-version", "1", "--manifest-path", str(manifest)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    [found] = [
        each for each in json.loads(done.stdout)["packages"] if each["name"] == "s2n-tls-sys"
    ]
    return Path(found["manifest_path"]).parent / "lib"


if __name__ == "__main__":
    for each in CRATES.values() if "all" in sys.argv[1:] else (NEWEST,):
        build(each)
