#!/bin/sh
# A program in OCaml has its texts in writable data, and may have a TLS library of its own in it.
#
# Version: semgrep 1.185.0 on PyPI, whose semgrep-core is compiled by OCaml.
# Behaviour: semgrep-core has ocaml-tls linked in, a TLS library in OCaml alone, and loads no OpenSSL by
# itself. OCaml puts string constants with a header into .data, among all other constant values. So
# the errors of that library are not in .rodata, where compilers of C, Rust and Go put theirs: who
# recognises libraries by texts in a file's read-only data does not find it, in 68 MB of it.
# Output seen: semgrep-core version: 1.185.0 (7c70dec497)
#              set of ciphers is not a proper set: in .data
#              Pre-shared key extension exists, but is not the last: in .data
#              needs libssl: no
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check --no-cache-dir pyelftools==0.33
venv/bin/pip download -q --disable-pip-version-check --no-cache-dir --no-deps --only-binary :all: semgrep==1.185.0
cat > look.py <<'PYTHON'
import subprocess
import sys
import zipfile
from pathlib import Path

from elftools.elf.elffile import ELFFile

with zipfile.ZipFile(next(Path().glob("semgrep-*.whl"))) as wheel:
    wheel.extractall("wheel")
program = next(Path("wheel").rglob("semgrep-core"))
program.chmod(0o755)
print(subprocess.run([program, "-version"], capture_output=True, text=True, check=True).stdout.strip())
ok = True
with program.open("rb") as file:
    elf = ELFFile(file)
    for text in ("set of ciphers is not a proper set", "Pre-shared key extension exists, but is not the last"):
        found = [name for name in (".rodata", ".data") if text.encode() in elf.get_section_by_name(name).data()]
        print(f"{text}: in {', '.join(found)}")
        ok &= found == [".data"]
    needed = [tag.needed for tag in elf.get_section_by_name(".dynamic").iter_tags("DT_NEEDED")]
    has_libssl = any(name.startswith("libssl") for name in needed)
    print(f"needs libssl: {'yes' if has_libssl else 'no'}")
sys.exit(not ok or has_libssl)
PYTHON
venv/bin/python look.py
