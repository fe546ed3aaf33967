"""Refuses outputs that would be left out in silence, or be written under the name of another."""

import argparse

from sslsniff.cli.options.parser import CommandParser

_NAMES = {
    "--pcap": (".pcap", ".pcapng"),
    "--har": (".har",),
    "--report": (".html", ".htm"),
    "--parquet": (".parquet",),
}
"""How the names of files usually end, by the option that writes them."""
_COMPRESSED = (".gz", ".zst", ".xz", ".bz2", ".lz4")


def check_outputs(parser: CommandParser, options: argparse.Namespace) -> None:
    """Exit with a usage error if an output would be left out, or have the name of another."""
    if options.hexdump and (options.json or options.chunks):
        parser.error("--hexdump is text: leave out --json, or use --chunks for plaintext in JSON")
    given = {
        "--pcap": options.pcap,
        "--har": options.har,
        "--report": options.report,
        "-o": options.output,
    }
    for option, name in given.items():
        if not name:
            continue
        if name.endswith(_COMPRESSED):
            parser.error(f"{option} {name}: no output is compressed: leave out that ending")
        for other, endings in _NAMES.items():
            if other != option and name.endswith(endings):
                parser.error(
                    f"{option} {name} has the ending of another output: use {other} {name}"
                )
