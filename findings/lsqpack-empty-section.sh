#!/bin/sh
# lsqpack encodes a field section without fields, and its own decoder refuses it.
#
# Version: pylsqpack 1.0.0, which has ls-qpack built in.
# Behaviour: RFC 9204 (section 4.5) has a field section as a prefix and field lines, any number of
# them: no trailers at all are such a section of two bytes. Encoder.encode returns it; Decoder
# raises DecompressionFailed, and an HTTP/3 connection that uses it ends with an error.
# Output seen: sections: 0000 refused, 0000d9 [(b':status', b'200')]
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check pylsqpack==1.0.0
"$folder/venv/bin/python" - <<'PY'
import pylsqpack

said = []
for fields in ([], [(b":status", b"200")]):
    encoder = pylsqpack.Encoder()
    encoder.apply_settings(max_table_capacity=0, blocked_streams=0)
    instructions, section = encoder.encode(0, fields)
    assert instructions == b""
    try:
        decoded = str(pylsqpack.Decoder(0, 0).feed_header(0, section)[1])
    except pylsqpack.DecompressionFailed:
        decoded = "refused"
    said.append(f"{section.hex()} {decoded}")
print("sections:", ", ".join(said))
raise SystemExit(said != ["0000 refused", "0000d9 [(b':status', b'200')]"])
PY
