"""The grammar of the command line."""

from sslsniff.commands.options import live_parser, read_parser

OF_LIVE = {
    "--all", "--pid", "-p", "--comm", "--uid", "--lib", "--sample",
    "--version", "--loader", "--ring-size", "--spill", "--max-call-bytes", "--returns",
    "--no-children", "--hold", "--no-hold",
}  # fmt: skip


def test_read_has_the_options_of_live() -> None:
    """But those that say what to watch, and how."""
    live, read = ({*parser._option_string_actions} for parser in (live_parser(), read_parser()))
    assert live - read == OF_LIVE
    assert read - live == set()
