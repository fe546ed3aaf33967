"""The manual page and the shells' completions, made from the parsers when sslsniff is built."""

import argparse

from sslsniff import __version__
from sslsniff.commands.options import (
    agent_options,
    decode_options,
    other_options,
    trace_options,
    watch_options,
)

_SUBCOMMANDS = {
    "top": watch_options.top_parser,
    "trace": trace_options.trace_parser,
    "read": other_options.read_parser,
    "decode": decode_options.decode_parser,
    "agent": agent_options.agent_parser,
    "report": other_options.report_parser,
    "stats": other_options.stats_parser,
    "list": other_options.list_parser,
    "symbols": other_options.symbols_parser,
    "doctor": other_options.doctor_parser,
}
_SHELLS = {
    "bash": "share/bash-completion/completions/sslsniff",
    "zsh": "share/zsh/site-functions/_sslsniff",
    "fish": "share/fish/vendor_completions.d/sslsniff.fish",
}
_USAGE = "sslsniff [FILTER] WHAT [OUTPUT] [-- COMMAND ...] | sslsniff SUBCOMMAND ..."
_MANUAL = "share/man/man1/sslsniff.1"


def parser() -> argparse.ArgumentParser:
    """Return one parser with all subcommands and options, for tools that read parsers."""
    whole = watch_options.empty_parser(_USAGE)
    subcommands = whole.add_subparsers(
        title="SUBCOMMANDS", metavar="", parser_class=argparse.ArgumentParser
    )
    for name, make in _SUBCOMMANDS.items():
        subcommand = make()
        subcommands.add_parser(
            name,
            prog=subcommand.prog,
            parents=[subcommand],
            add_help=False,
            usage=subcommand.usage,
            description=subcommand.description,
            epilog=subcommand.epilog,
            help=subcommand.description,
        )
    watch_options.add_watch_options(whole)  # last: a subcommand is the first word
    return whole


def files() -> dict[str, str]:
    """Return the text of each file, by its path below a prefix such as /usr.

    Needs shtab and argparse-manpage, which a build installs.
    """
    import shtab
    from argparse_manpage.manpage import Manpage

    whole = parser()
    texts = {path: shtab.complete(whole, shell) for shell, path in _SHELLS.items()}
    data = {
        "project_name": "sslsniff",
        "version": __version__,
        "manual_title": "User Commands",
        "description": "live plaintext of TLS traffic",
    }
    texts[_MANUAL] = str(Manpage(whole, format="pretty", _data=data))
    return texts
