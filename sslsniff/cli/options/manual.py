"""Makes the manual page and the shells' completions from the parsers, when sslsniff is built."""

import argparse
import re
import textwrap
from dataclasses import replace

from sslsniff import __version__
from sslsniff.cli.options.other_options import AGENT, DOCTOR, LIST, SYMBOLS
from sslsniff.cli.options.read_options import DECODE, READ, REPORT_PAGE, STATISTICS
from sslsniff.cli.options.trace_options import TRACE
from sslsniff.cli.options.watch_options import TOP, WATCH

_SUBCOMMANDS = {
    "top": TOP,
    "trace": TRACE,
    "read": READ,
    "decode": DECODE,
    "agent": AGENT,
    "report": REPORT_PAGE,
    "stats": STATISTICS,
    "list": LIST,
    "symbols": SYMBOLS,
    "doctor": DOCTOR,
}
_SHELLS = {
    "bash": "share/bash-completion/completions/sslsniff",
    "zsh": "share/zsh/site-functions/_sslsniff",
    "fish": "share/fish/vendor_completions.d/sslsniff.fish",
}
_USAGE = "sslsniff [FILTER] WHAT [OUTPUT] [-- COMMAND ...] | sslsniff SUBCOMMAND ..."
_MANUAL = "share/man/man1/sslsniff.1"
_SECTION = re.compile(r"^(?=\.SH\b)", re.MULTILINE)
_COMMENTS = ".SH COMMENTS\n"
_LAST_SECTIONS = r""".SH EXIT STATUS
.TP
0
ended normally
.TP
1
an error, which one line names with its remedy, or not all that was captured is shown
.TP
2
wrong usage
.PP
With \fB\-\- COMMAND\fR it is the command's.
.SH FILES
.TP
/var/cache/sslsniff
what was found in programs and libraries, as root; else below $XDG_CACHE_HOME or ~/.cache
.TP
/etc/sslsniff/agent.toml
the configuration of the agent, where its service is installed
.SH SEE ALSO
.BR tcpdump (8),
.BR strace (1),
.BR wireshark (1)
.PP
The files docs/*.md that are named here are in /usr/share/doc/sslsniff-ebpf, or in
share/doc/sslsniff below the prefix of another installation.
"""


def parser() -> argparse.ArgumentParser:
    """Return one parser with all subcommands and options, for tools that read parsers."""
    whole = replace(WATCH, usage=_USAGE, options=(), tells_version=False).whole_parser()
    subcommands = whole.add_subparsers(
        title="SUBCOMMANDS", metavar="", parser_class=argparse.ArgumentParser
    )
    for name, command in _SUBCOMMANDS.items():
        subcommand = command.whole_parser()
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
    whole.add(WATCH.options, WATCH.titles)  # last: a subcommand is the first word
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
    texts[_MANUAL] = _ordered(str(Manpage(whole, format="pretty", _data=data)))
    return texts


def _ordered(page: str) -> str:
    """Return the page with the usual sections in the usual order (man-pages(7)).

    The options of subcommands come after all others, and the lines of examples stay lines.
    """
    page, _, examples = page.partition(_COMMENTS)
    sections = _SECTION.split(page)
    of_subcommands = [each for each in sections if "'sslsniff " in each.partition("\n")[0]]
    first = [each for each in sections if each not in of_subcommands]
    lines = textwrap.dedent(examples.removeprefix("examples:")).strip("\n")
    shown = f".SH EXAMPLES\n.nf\n{lines}\n.fi\n"
    return "".join([*first, *of_subcommands, shown, _LAST_SECTIONS])
