"""The option that limits how long an end takes."""

import argparse
from typing import Any

from sslsniff.cli.options import values


class _EndWithin(argparse.Action):
    """Stores the limit, and that the user set it."""

    def __call__(
        self,
        _parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        _option: str | None = None,
    ) -> None:
        namespace.end_within = values
        namespace.limits_end = True


def add_end_within(output: "argparse._ArgumentGroup") -> None:
    """Add the option of a command that Ctrl-C ends."""
    output.set_defaults(limits_end=False)
    output.add_argument(
        "--end-within",
        action=_EndWithin,
        type=values.seconds,
        default=2,
        metavar="SECONDS",
        help="how long an end by Ctrl-C or SIGTERM may take (default: 2; Ctrl-C: 2 since the last"
        " record that was decoded); what still waits then is lost",
    )
