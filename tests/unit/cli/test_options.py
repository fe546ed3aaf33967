"""The grammar of the command line."""

import pytest

from sslsniff.capture.options import SAMPLE
from sslsniff.cli.options.command import Command
from sslsniff.cli.options.read_options import DECODE, READ, REPORT_PAGE, STATISTICS
from sslsniff.cli.options.watch_options import TOP, WATCH
from sslsniff.destinations.options import OUTPUT
from sslsniff.filters.options import FILTER
from sslsniff.functions.options import CALLS
from sslsniff.outputs.report.output import BODIES, FILE, SIZE
from sslsniff.redaction.options import REDACT

OF_WATCHING = {
    "--stdio",
    "--all", "--pid", "-p", "--comm", "--uid", "--container", "--unit", "--cgroup", "--lib",
    "--sample", "--most-cpu", "--debug",
    "--version", "--loader", "--ring-size", "--spill", "--max-call-bytes", "--returns",
    "--no-children", "--engine", "--hold", "--no-hold", "--calls", "--keylog", "--packets",
}  # fmt: skip


def test_read_has_the_options_of_watching() -> None:
    """But those that say what to watch, and how; a live capture has one process."""
    watch, read = ({*parser._option_string_actions} for parser in (WATCH.parser(), READ.parser()))
    assert watch - read == OF_WATCHING
    assert read - watch == {"--jobs"}


@pytest.mark.parametrize(
    ("beside", "message"),
    [
        (("--all",), "--calls needs --pid or -- COMMAND: it probes functions of one program"),
        (
            ("--pid", "1", "--redact"),
            "--calls shows arguments, which --redact does not blank: leave one out",
        ),
        (
            ("--pid", "1", "--otlp", "http://h"),
            "--calls shows arguments, which --redact does not blank: leave one out",
        ),
        (
            ("--pid", "1", "--redact-pattern", "x"),
            "--calls shows arguments, which --redact does not blank: leave one out",
        ),
        (
            ("--pid", "1", "--stream", "1"),
            "--stream is for HTTP/2, whose calls are not known: leave out --calls",
        ),
        (("--pid", "1", "--sample", "1/2"), "--calls must see all connections: leave out --sample"),
        (("--pid", "1", "--loader", "bcc"), "--calls works with --loader co-re only"),
        (("--pid", "1", "--calls", "("), "is no regular expression"),
        (("--pid", "1", "--calls", ""), "it is empty"),
    ],
)
def test_calls_beside_other_options(
    beside: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        WATCH.parse(["--calls", "handle", *beside])
    assert message in capsys.readouterr().err


URL = "http://127.0.0.1:4317"


@pytest.mark.parametrize(
    ("given", "is_redacted"),
    [
        ((), False),
        (("--redact",), True),
        (("--otlp", URL), True),
        (("--parquet", "s3://bucket/folder"), True),
        (("--parquet", "folder"), False),
        (("--otlp", URL, "--no-redact"), False),
    ],
)
def test_what_leaves_the_machine_is_redacted(given: tuple[str, ...], is_redacted: bool) -> None:
    assert WATCH.parse(["--pid", "1", *given])[REDACT] is is_redacted
    assert READ.parse(["capture", *given])[REDACT] is is_redacted


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--no-redact",), "--no-redact needs --otlp, --kafka or an object store"),
        (("--otlp", URL, "--redact", "--no-redact"), "--redact and --no-redact contradict"),
        (("--otlp", URL, "--jobs", "2"), "--jobs is for lines of text and JSON: leave out --otlp"),
    ],
)
def test_redaction_and_sending_beside_other_options(
    given: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        READ.parse(["capture", *given])
    assert message in capsys.readouterr().err


def test_calls_may_be_repeated() -> None:
    asked = WATCH.parse(["--calls", "^a::", "--calls", "b$", "--", "server"])
    assert asked[CALLS] == ("^a::", "b$")


@pytest.mark.parametrize(
    ("arguments", "page"),
    [
        (["folder/out.pcapng"], "out.pcapng.html"),
        (["-"], "report.html"),
        (["out.pcapng", "-o", "folder/a.html", "~c 500"], "folder/a.html"),
    ],
)
def test_the_name_of_a_report(arguments: list[str], page: str) -> None:
    asked = REPORT_PAGE.parse([*arguments, "--report-bodies", "1K"])
    assert (asked[FILE], asked[OUTPUT]) == (page, None)
    assert (asked[BODIES], asked[SIZE]) == (1 << 10, 16 << 20)
    assert asked[FILTER] == ("~c 500" if "~c 500" in arguments else None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--json", "--hexdump"), "--hexdump is text: leave out --json, or use --chunks"),
        (("--chunks", "--hexdump"), "--hexdump is text: leave out --json, or use --chunks"),
        (("--pcap", "x.har"), "--pcap x.har has the ending of another output: use --har x.har"),
        (("--har", "x.pcapng"), "--har x.pcapng has the ending of another output: use --pcap x"),
        (("--report", "x.pcap"), "--report x.pcap has the ending of another output: use --pcap x"),
        (("-o", "x.html"), "-o x.html has the ending of another output: use --report x.html"),
        (("--pcap", "x.pcap.gz"), "--pcap x.pcap.gz: no output is compressed: leave out that"),
        (("--tree", "--around", "2"), "--around would cut trees apart: leave it out, as --tree"),
    ],
)
def test_outputs_that_contradict_themselves(
    options: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        WATCH.parse(["--all", *options])
    assert message in capsys.readouterr().err
    with pytest.raises(SystemExit):
        READ.parse(["file", *options])
    assert message in capsys.readouterr().err


def test_one_file_at_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    for command in (READ, REPORT_PAGE, STATISTICS):
        with pytest.raises(SystemExit):
            command.parse([__file__, __file__])
        error = capsys.readouterr().err
        assert "is a file: sslsniff read FILE reads one file at a time" in error
        assert f"write '~u {__file__}'" in error


FROM_KAFKA = ["--kafka", "h:9092", "--topic", "t", "--group", "g"]


@pytest.mark.parametrize("word", ["sku-17", "/api/v1", "top", "500", "(a"])
@pytest.mark.parametrize(
    ("command", "before"),
    [(READ, ["f"]), (REPORT_PAGE, ["f"]), (STATISTICS, ["f"]), (DECODE, FROM_KAFKA)],
)
def test_a_word_is_a_filter_where_nothing_is_watched(
    command: Command, before: list[str], word: str
) -> None:
    assert command.parse([*before, word])[FILTER] == word


@pytest.mark.parametrize("command", [WATCH, TOP])
def test_a_word_is_no_filter_where_processes_are_watched(
    command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    """It may be a mistyped command, or the name of a process."""
    with pytest.raises(SystemExit):
        command.parse(["--all", "nginx"])
    error = capsys.readouterr().err
    assert "has no operator of a filter, such as '~u nginx'" in error
    assert "the name of one that runs after --comm" in error


def test_a_value_that_is_none_is_given() -> None:
    """--sample auto: that is no share, and not the default."""
    assert WATCH.parse(["--pid", "1", "--sample", "auto"])[SAMPLE] is None
    assert WATCH.parse(["--pid", "1"])[SAMPLE] == 1


def test_the_short_help_has_what_users_look_for() -> None:
    """Each section fits a terminal of 24 lines."""
    shown = WATCH.parser().format_help()
    for option in ("--around N", "--hold, --no-hold", "--prices FILE", "--pid PID [OUTPUT] --"):
        assert option in shown
    sections = [section.splitlines() for section in shown.split("\n\n")]
    assert max(map(len, sections)) < 24
    assert max(len(line) for line in shown.splitlines()) <= 100
