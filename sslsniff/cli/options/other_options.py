"""The command lines of ``list``, ``symbols``, ``doctor`` and ``agent``."""

import re
from dataclasses import replace

from sslsniff.capture.options import PID
from sslsniff.cli.options.command import Command
from sslsniff.outputs.lines.options import JSON
from sslsniff.settings import values
from sslsniff.settings.asked import Asked
from sslsniff.settings.option import Group, Kind, Option, flag

LIST = Command(
    name="sslsniff list",
    description="Show which processes use which TLS library, and which probes fit.",
    options=(replace(PID, help="only this process (may be repeated)", group=Group.NONE),),
)

FILE: Option[str] = Option(
    name="FILE",
    kind=Kind.REQUIRED_PLACE,
    default="",
    help="a program or shared library",
    parse=values.name,
    group=Group.NONE,
)
PATTERN: Option[re.Pattern[str] | None] = Option(
    name="PATTERN",
    kind=Kind.PLACE,
    default=None,
    help="only those whose names, mangled or not, have this regular expression in them",
    parse=values.pattern,
    group=Group.NONE,
)
MANGLED = flag("--mangled", "show names as they were linked", group=Group.NONE)
SIGNATURES = flag(
    "--signatures",
    "show parameters with their types, and results, from debug info",
    group=Group.NONE,
)
TLS = flag(
    "--tls",
    "show instead what proves the functions of BoringSSL or AWS-LC, without symbols",
    group=Group.NONE,
)


def _tls_is_alone(asked: Asked) -> str | None:
    if asked[TLS] and (asked[PATTERN] or asked[MANGLED] or asked[SIGNATURES]):
        return "--tls goes with FILE and --json only"
    return None


SYMBOLS = Command(
    name="sslsniff symbols",
    description="Show the functions of a program or library, and where a probe fits in each.",
    epilog="Also where functions were inlined, if debug info tells, and static probes (USDT).",
    options=(FILE, PATTERN, replace(JSON, group=Group.NONE), MANGLED, SIGNATURES, TLS),
    rules=(_tls_is_alone,),
)

DOCTOR = Command(
    name="sslsniff doctor",
    description="Show what this kernel and user can do, and the remedy for each no.",
    options=(
        replace(
            JSON,
            help="an object for bug reports, without names of hosts and users (docs/json.md)",
            group=Group.NONE,
        ),
    ),
)

CONFIG: Option[str] = Option(
    name="--config",
    kind=Kind.VALUE,
    default="",
    help="what to watch, where results go, and the limits: a TOML file",
    parse=values.name,
    metavar="FILE",
    group=Group.NONE,
    is_required=True,
)
DRY_RUN = flag("--dry-run", "only check the file, and show what it means", group=Group.NONE)
AGENT = Command(
    name="sslsniff agent",
    description="Capture as a service, as a file says (docs/agent.md).",
    epilog="SIGHUP: read the file again.",
    options=(CONFIG, DRY_RUN),
)
