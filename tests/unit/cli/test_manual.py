"""The manual page and completions have all that can be said on the command line."""

import argparse
import re
import subprocess
from pathlib import Path

import pytest

from sslsniff.cli.options import manual

TEXTS = manual.files()
MANUAL = TEXTS["share/man/man1/sslsniff.1"]
BASH = "share/bash-completion/completions/sslsniff"


def options() -> set[str]:
    """Return the long options of all subcommands that are for users."""
    parsers = [manual.parser(), *(each.whole_parser() for each in manual._SUBCOMMANDS.values())]
    actions = [action for each in parsers for action in each._actions]
    shown = [action for action in actions if action.help != argparse.SUPPRESS]
    names = {name for action in shown for name in action.option_strings}
    return {name for name in names if name.startswith("--")} - {"--help-all"}


def test_the_manual_has_every_option() -> None:
    shown = MANUAL.replace("\\-", "-")
    assert [each for each in sorted(options() - {"--help"}) if f"\\fB{each}\\fR" not in shown] == []


@pytest.mark.tools
def test_the_manual_is_one() -> None:
    """No warning comes of it, and it begins as all do."""
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww"], input=MANUAL, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("SSLSNIFF(1)")


@pytest.mark.tools
def test_its_sections_are_in_the_usual_order() -> None:
    """man-pages(7); the main options are before those of subcommands."""
    shown = subprocess.run(
        ["groff", "-man", "-Tascii", "-P-cbou"], input=MANUAL, capture_output=True, text=True
    ).stdout
    titles = [line for line in shown.splitlines() if line and not line[0].isspace()][1:-1]
    last = ["EXAMPLES", "EXIT STATUS", "FILES", "SEE ALSO"]
    assert titles[:3] == ["NAME", "SYNOPSIS", "DESCRIPTION"]
    assert titles[-4:] == last
    main = [title for title in titles if "sslsniff" not in title]
    assert titles[: len(main) - 4] == main[:-4]
    assert "ENGINE" in main
    assert any(title.startswith("COMMAND") for title in titles)
    [example] = [line for line in shown.splitlines() if "--container web" in line]
    assert "also after a restart" in example
    assert "--lib" not in example


@pytest.mark.parametrize(
    ("shell", "shown"),
    [("bash", "--{}[^a-z-]"), ("zsh", "--{}[^a-z-]"), ("fish", "-l {}[^a-z-]")],
)
def test_completions_have_every_option(shell: str, shown: str) -> None:
    text = TEXTS[manual._SHELLS[shell]]
    names = [each.removeprefix("--") for each in options()]
    assert [each for each in names if not re.search(shown.format(each), text)] == []


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--pca"], ["--pcap", "--pcap-files", "--pcap-layout", "--pcap-size"]),
        (["doc"], ["doctor"]),
        (["symbols", "--m"], ["--mangled"]),
        (["trace", "--chr"], ["--chrome-trace"]),
    ],
)
def test_bash_completes(words: list[str], expected: list[str], tmp_path: Path) -> None:
    script = tmp_path / "completion"
    script.write_text(TEXTS[BASH])
    ask = (
        f"source {script}; COMP_WORDS=(sslsniff {' '.join(words)}); COMP_CWORD={len(words)}; "
        "function=$(complete -p sslsniff | sed 's/.*-F \\([^ ]*\\) .*/\\1/'); "
        "$function; printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True)
    assert (sorted(done.stdout.split()), done.stderr) == (expected, "")
