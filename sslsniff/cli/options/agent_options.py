"""The command line of ``sslsniff agent``."""

from collections.abc import Sequence
from dataclasses import dataclass

from sslsniff.cli.options import values
from sslsniff.cli.options.parser import CommandParser, options_of


@dataclass(frozen=True)
class AgentOptions:
    """``config``: the agent's file. ``dry_run``: only check it, and say what it means."""

    config: str
    dry_run: bool


def parse_agent(arguments: Sequence[str]) -> AgentOptions:
    """Return what the arguments of ``sslsniff agent`` say; exits with 2 if they are wrong."""
    return options_of(AgentOptions, agent_parser().parse(arguments))


def agent_parser() -> CommandParser:
    """Return the parser of ``sslsniff agent``."""
    parser = CommandParser(
        prog="sslsniff agent",
        description="Capture as a service, as a file says (docs/agent.md).",
        epilog="SIGHUP: read the file again.",
    )
    parser.add_argument(
        "--config",
        required=True,
        type=values.name,
        metavar="FILE",
        help="what to watch, where results go, and the limits: a TOML file",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="only check the file, and show what it means"
    )
    return parser
