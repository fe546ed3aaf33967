"""The grammar of the command line."""

from sslsniff.commands.options.other_options import read_parser
from sslsniff.commands.options.watch_options import watch_parser

OF_WATCHING = {
    "--all", "--pid", "-p", "--comm", "--uid", "--container", "--unit", "--cgroup", "--lib",
    "--sample",
    "--version", "--loader", "--ring-size", "--spill", "--max-call-bytes", "--returns",
    "--no-children", "--hold", "--no-hold",
}  # fmt: skip


def test_read_has_the_options_of_watching() -> None:
    """But those that say what to watch, and how."""
    watch, read = ({*parser._option_string_actions} for parser in (watch_parser(), read_parser()))
    assert watch - read == OF_WATCHING
    assert read - watch == set()
