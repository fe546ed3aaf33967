"""Says which options of outputs contradict each other, and what follows from them."""

from typing import Any

from sslsniff.cli.options.output_list import OUTPUTS
from sslsniff.destinations.options import OUTPUT
from sslsniff.destinations.output_files import STANDARD_OUTPUT
from sslsniff.filters.options import AROUND
from sslsniff.functions.options import CALLS
from sslsniff.outputs.lines import options as lines
from sslsniff.redaction.options import NO_REDACT, REDACT
from sslsniff.request_tree.options import TREE
from sslsniff.settings.asked import Asked, Rule
from sslsniff.settings.option import Option, flag
from sslsniff.statistics.options import GROUP_BY, STATS

TUI = flag("--tui", "a screen with lists, details and figures, as sslsniff top (docs/screen.md)")

_SHOWN: tuple[Option[Any], ...] = (
    *(lines.VERBOSE, lines.JSON, lines.CHUNKS, lines.HEXDUMP, lines.PRINT),
    *(OUTPUT, TREE, lines.FRAMES, STATS, GROUP_BY, lines.QUIET),
)
_COMPRESSED = (".gz", ".zst", ".xz", ".bz2", ".lz4")


def _short(option: Option[Any]) -> str:
    return option.short if option in (lines.VERBOSE, OUTPUT) and option.short else option.name


def _a_screen_shows_all(asked: Asked) -> str | None:
    for option in _SHOWN:
        if asked[TUI] and asked[option]:
            name = STATS.name if option is GROUP_BY else _short(option)
            return f"a screen shows everything: leave out {name}"
    return None


def _around_leaves_out(asked: Asked) -> str | None:
    if asked[AROUND] is not None and asked[TUI]:
        return f"a screen shows everything: leave out {AROUND.name}"
    if asked[AROUND] is not None and asked[CALLS]:
        return (
            f"{CALLS.name} waits for all exchanges, and {AROUND.name} leaves some out: choose one"
        )
    if asked[AROUND] is not None and asked[TREE]:
        return (
            f"{AROUND.name} would cut trees apart: leave it out, as {TREE.name} with a filter,"
            " such as '~e', shows the whole tree of each exchange that matches"
        )
    return None


def _a_screen_has_the_terminal(asked: Asked) -> str | None:
    names = [asked[each.option] for each in OUTPUTS if each.names_file or each.endings]
    if asked[TUI] and any(name in STANDARD_OUTPUT for name in names):
        return "a screen takes the terminal: name a file, not standard output"
    return None


def _a_name_says_what_a_file_is(asked: Asked) -> str | None:
    """Refuse a name that says that an output is another one, or compressed."""
    named = {each.option.name: asked[each.option] for each in OUTPUTS if each.names_file}
    named["-o"] = asked[OUTPUT]
    for option, name in named.items():
        if name and name.endswith(_COMPRESSED):
            return f"{option} {name}: no output is compressed: leave out that ending"
        for other in OUTPUTS:
            if name and other.option.name != option and name.endswith(other.endings or ("\0",)):
                return (
                    f"{option} {name} has the ending of another output:"
                    f" use {other.option.name} {name}"
                )
    return None


def _leaves(asked: Asked) -> bool:
    return any(each.leaves_machine(asked) for each in OUTPUTS)


def redaction_is_plain(asked: Asked) -> str | None:
    """Return what is wrong if secrets are to be blanked, and not to be; None: nothing."""
    if asked[NO_REDACT] and asked[REDACT]:
        return "--redact and --no-redact contradict each other: leave one out"
    if asked[NO_REDACT] and not _leaves(asked):
        return "--no-redact needs --otlp, --kafka or an object store: no other output is redacted"
    return None


RULES: tuple[Rule, ...] = (
    _a_screen_shows_all,
    _around_leaves_out,
    _a_screen_has_the_terminal,
    lines.hexdump_is_text,
    _a_name_says_what_a_file_is,
    *(rule for each in OUTPUTS for rule in each.rules),
    redaction_is_plain,
)


def redact_what_leaves(asked: Asked) -> Asked:
    """Return what was asked for, with ``--redact`` if plaintext leaves this machine."""
    return asked.but(REDACT, True) if _leaves(asked) and not asked[NO_REDACT] else asked
