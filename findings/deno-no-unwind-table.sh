#!/bin/sh
# Deno 2.9.5 and later have no unwind table, so what finds functions by it finds none.
#
# Version: deno 2.9.4 and 2.9.8, the wheels on PyPI for x86-64.
# Behaviour: the program is stripped in all versions. Up to 2.9.4 it has .eh_frame_hdr, the table of
# all its functions that debuggers, profilers and tracers read in stripped programs. Since 2.9.5 it
# has none, and no .eh_frame either, and over twice as many functions keep a frame pointer. So stacks
# are walked by frame pointers, and where a function begins or ends must be found from its code.
# Output seen: deno 2.9.4: unwind table: True, push rbp and mov rbp,rsp together: 59793 times
#              deno 2.9.8: unwind table: False, push rbp and mov rbp,rsp together: 141695 times
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
cat > look.py <<'PYTHON'
import struct
import subprocess
import sys
from pathlib import Path

PT_GNU_EH_FRAME = 0x6474E550
FRAME = bytes.fromhex("55 48 89 e5")
version, program = sys.argv[1:]
shown = subprocess.run([program, "eval", "console.log(6 * 7)"], capture_output=True, text=True)
assert shown.stdout == "42\n", shown
data = Path(program).read_bytes()
first, size, count = *struct.unpack_from("<Q", data, 32), *struct.unpack_from("<HH", data, 54)
kinds = {struct.unpack_from("<I", data, first + size * each)[0] for each in range(count)}
has_table, frames = PT_GNU_EH_FRAME in kinds, data.count(FRAME)
print(f"deno {version}: unwind table: {has_table}, push rbp and mov rbp,rsp together: {frames} times")
sys.exit(has_table != (version == "2.9.4") or frames < 50_000)
PYTHON
for version in 2.9.4 2.9.8; do
    venv/bin/pip install -q --disable-pip-version-check --no-cache-dir "deno==$version"
    venv/bin/python look.py "$version" venv/bin/deno
done
