"""The command line for watching processes."""

from collections.abc import Sequence
from typing import Any

from sslsniff.capture import options as capture
from sslsniff.cli.options import output_rules
from sslsniff.cli.options.command import Command
from sslsniff.cli.options.output_rules import TUI
from sslsniff.cli.options.shared_options import FILTERS, OUTPUT_OPTIONS
from sslsniff.filters.options import FILTER
from sslsniff.functions.options import CALLS
from sslsniff.outputs.keylog.options import KEYLOG
from sslsniff.outputs.lines.options import STREAM
from sslsniff.outputs.packets.options import PACKETS
from sslsniff.redaction.options import PATTERNS, REDACT
from sslsniff.settings.asked import Asked
from sslsniff.settings.option import Option

_USAGE = """\
sslsniff [FILTER] WHAT [OUTPUT]              watch processes
       sslsniff [FILTER] [OUTPUT] -- COMMAND [ARGUMENT...]  start a command and watch it
       sslsniff [FILTER] --pid PID [OUTPUT] -- COMMAND ...  the same, and a running process
       sslsniff top [FILTER] [WHAT]                 watch on a screen
       sslsniff trace FILE|--pid PID PATTERN...     which functions run, with arguments
       sslsniff read FILE [FILTER] [OUTPUT]         decode a capture again
       sslsniff report FILE [-o PAGE] [FILTER]      write a page about a capture
       sslsniff stats FILE [FILTER] [--group-by K]  how many, how fast, by host and path
       sslsniff list [--pid PID]                    which TLS libraries are there, which probes fit
       sslsniff symbols FILE [PATTERN]              functions of a binary, and where probes fit
       sslsniff doctor                              what this kernel and user can do"""

_MORE = """\
examples:
  sslsniff --pid 1234 -v                         a running process, with headers
  sslsniff --container web -v                    a container, also after a restart
  sslsniff --comm nginx --json -o out.json       all named nginx, for programs to read
  sslsniff --lib libssl.so.3 --pcap out.pcapng   who uses this library, for Wireshark
  sslsniff -- curl https://example.org/          a command; its output stays its own
  sslsniff --pid 1234 -- ./client                a running process, and a command that asks it
  sslsniff --pid 1234 --hold -v                  a shell, and each short program that it starts

Ctrl-C ends with a summary; Ctrl-\\ (or SIGUSR1) shows the exchanges that are still open."""

SHORT_HELP = """\
usage: sslsniff [FILTER] WHAT [OUTPUT]

  sslsniff --pid 1234                    a running process, its later children
  sslsniff --comm nginx -v               all named nginx, with headers
  sslsniff -- curl https://example.org/  a command, from its start
  sslsniff --all                         every process of this host

  sslsniff top --pid 1234 a screen instead of lines
  sslsniff list           which TLS libraries are there, which probes fit
  sslsniff trace FILE PATTERN  start a program, show calls of its functions
  sslsniff read FILE      decode a capture again
  sslsniff report FILE    write a page about it, for a browser
  sslsniff stats FILE     how many exchanges, how fast, how many failed
  sslsniff doctor         what this kernel and user can do
  sslsniff --help         all options
"""
"""What ``sslsniff`` without arguments shows."""

_OPTIONS: tuple[Option[Any], ...] = (
    *capture.WHAT,
    FILTER,
    *OUTPUT_OPTIONS,
    CALLS,
    *(KEYLOG, PACKETS),
    *capture.HOW,
)


def needs_probes(asked: Asked) -> list[str]:
    """Return the options that are given and that a preloaded library cannot serve."""
    given = (each for each in _OPTIONS if each.needs_probes and not asked.is_usual(each))
    return [each.name for each in given if each is not capture.HOLD or asked[each]]


def _is_selected(asked: Asked) -> bool:
    """Return whether the options say which processes to watch, a command aside."""
    return any(asked[each] for each in capture.SELECTING)


def _all_is_alone(asked: Asked) -> str | None:
    if asked[capture.ALL] and (_is_selected(asked) or asked.command):
        return "--all watches every process: leave it out, or what stands beside it"
    return None


def _something_is_watched(asked: Asked) -> str | None:
    """Watch the whole host only with ``--all``: that shows what others' programs send."""
    if asked[capture.ALL] or _is_selected(asked) or asked.command:
        return None
    return (
        "what to watch is missing: --pid, --comm, --uid, --container, --unit, --cgroup, --lib,"
        " -- COMMAND, or --all for every process of this host"
    )


def _cpu_decides_the_sample(asked: Asked) -> str | None:
    if asked[capture.MOST_CPU] is not None and asked[capture.SAMPLE] not in {1, None}:
        return "--most-cpu chooses how many connections are shown: leave out --sample"
    return None


def _is_of_one_program(asked: Asked) -> bool:
    return bool(asked[capture.PID] or asked.command)


def _calls_can_be_shown(asked: Asked) -> str | None:
    if not asked[CALLS]:
        return None
    if not _is_of_one_program(asked):
        return "--calls needs --pid or -- COMMAND: it probes functions of one program"
    if asked[REDACT] or asked[PATTERNS]:
        return "--calls shows arguments, which --redact does not blank: leave one out"
    if asked[STREAM]:
        return "--stream is for HTTP/2, whose calls are not known: leave out --calls"
    if asked[capture.SAMPLE] != 1:
        return "--calls must see all connections: leave out --sample"
    if asked[capture.LOADER] == "bcc":
        return "--calls works with --loader co-re only"
    return None


def _secrets_can_be_written(asked: Asked) -> str | None:
    given = next((each for each in (KEYLOG, PACKETS) if asked[each]), None)
    if given is None:
        return None
    if asked[REDACT] or asked[PATTERNS]:
        return f"{given.name} writes what decrypts all traffic: leave it or --redact out"
    if asked[capture.LOADER] == "bcc":
        return f"{given.name} works with --loader co-re only"
    return None


def _stdio_is_of_a_command(asked: Asked) -> str | None:
    if not asked[capture.STDIO]:
        return None
    if not asked.command:
        return "--stdio is of the processes that a command starts: add -- COMMAND"
    if _is_selected(asked) or not asked[capture.CHILDREN]:
        return "--stdio is of all processes that COMMAND starts: leave out what selects others"
    if asked[capture.LOADER] == "bcc":
        return "--stdio works with --loader co-re only"
    return None


def _processes_are_followed(asked: Asked) -> str | None:
    if _is_of_one_program(asked) or (not asked[capture.HOLD] and asked[capture.CHILDREN]):
        return None
    return f"--{'hold' if asked[capture.HOLD] else 'no-children'} needs --pid or -- COMMAND"


def _can_be_preloaded(asked: Asked) -> str | None:
    if asked[capture.ENGINE] != "preload":
        return None
    if not asked.command:
        return "--engine preload needs -- COMMAND: it cannot look into running processes"
    if others := needs_probes(asked):
        return f"--engine preload cannot serve {others[0]}: leave one of them out"
    return None


def _settled(asked: Asked) -> Asked:
    if asked[capture.MOST_CPU] is not None and asked[capture.SAMPLE] == 1:
        asked = asked.but(capture.SAMPLE, None)
    return output_rules.redact_what_leaves(asked)


WATCH = Command(
    name="sslsniff",
    usage=_USAGE,
    description="Show the plaintext of TLS traffic of running processes.",
    epilog=_MORE,
    options=_OPTIONS,
    filters=FILTERS,
    takes_command=True,
    tells_version=True,
    has_short_help=True,
    rules=(
        _all_is_alone,
        _stdio_is_of_a_command,
        _something_is_watched,
        _cpu_decides_the_sample,
        *output_rules.RULES,
        _calls_can_be_shown,
        _secrets_can_be_written,
        _processes_are_followed,
        _can_be_preloaded,
    ),
    settle=_settled,
)
"""Also whatever ``sslsniff top`` and the agent's file ask for."""

TOP = Command(
    name="sslsniff top",
    usage="sslsniff top [FILTER] [WHAT] [OUTPUT] [-- COMMAND [ARGUMENT...]]",
    description="Watch processes on a screen (docs/screen.md). Without WHAT: the whole host.",
    options=_OPTIONS,
    filters=FILTERS,
    takes_command=True,
    tells_version=True,
    has_short_help=True,
)


def parse_top(arguments: Sequence[str]) -> tuple[list[str], Asked]:
    """Return the arguments that watch what ``sslsniff top`` shows, and what they ask for.

    Without a selection that is the whole host. Exits with 2 if they are wrong.
    """
    at = arguments.index("--") if "--" in arguments else len(arguments)
    given = [*arguments[:at], TUI.name]
    asked = TOP.parse(given)
    if at == len(arguments) and not (asked[capture.ALL] or _is_selected(asked)):
        given.append(capture.ALL.name)
    whole = [*given, *arguments[at:]]
    return whole, WATCH.parse(whole)
