"""``sslsniff decode``: decode plaintext that other machines wrote to Kafka."""

import contextlib
import io
import sys
from collections.abc import Sequence
from typing import Any, TextIO

from sslsniff.cli.chosen_sinks import (
    annotated,
    check_outputs,
    filtered,
    other_sinks,
    text_sinks,
    wants_text,
)
from sslsniff.cli.ending import CaptureControl
from sslsniff.cli.options.read_options import BROKERS, CONSUMERS, DECODE, UNTIL_END, commit_s
from sslsniff.cli.printing import note
from sslsniff.cli.pump import pump
from sslsniff.cli.text_output import open_lines
from sslsniff.core.errors import NO_TIME
from sslsniff.core.sink import Sink
from sslsniff.destinations.new_results import NewResults
from sslsniff.destinations.options import END_WITHIN
from sslsniff.destinations.output import Opening, needed_extra
from sslsniff.forms.text.summary import SummarySink
from sslsniff.outputs.kafka.output import PROPERTIES, TOPIC
from sslsniff.settings.asked import Asked


def decode(arguments: Sequence[str]) -> int:
    """Decode what is in a topic; return the exit code. Raises ``SslsniffError``."""
    asked = DECODE.parse(arguments)
    with needed_extra("decode", "kafka", "confluent-kafka"):
        from sslsniff.files.kafka.topic_source import TopicSource
    check_outputs(asked, sys.stdout)
    with contextlib.ExitStack() as closing:
        control = CaptureControl(asked[END_WITHIN])
        control.listen()
        sinks = _stored_sinks(asked, closing, control)
        source = TopicSource(
            asked[BROKERS],
            asked[TOPIC] or "",
            asked[CONSUMERS],
            asked[PROPERTIES],
            commit_s=commit_s(asked),
            until_end=asked[UNTIL_END],
            report=note,
        )
        results = NewResults(sinks, source)
        source.persist = results.persist
        shown = annotated(asked, filtered(asked, [results]))
        is_whole = pump(source, shown, asked, control)
        if source.had_time:
            results.persist()
        else:
            is_whole = False
            note(f"what was decoded last is not shown, the next start decodes it again: {NO_TIME}")
    control.done()
    return int(not is_whole)


def _stored_sinks(
    asked: Asked, closing: contextlib.ExitStack, control: CaptureControl
) -> list[Sink]:
    """Return the sinks that the command line asks for; what they do is stored by ``persist``."""
    sinks: list[Sink] = []
    if wants_text(asked):
        output = open_lines(asked, sys.stdout, closing, control.reader_gone)
        waiting = _WaitingLines(output)
        text = io.TextIOWrapper(
            waiting,  # type: ignore[type-var]
            output.encoding,
            output.errors,
            newline="\n",
        )
        sinks += [*text_sinks(asked, text), _LineStore(text, waiting)]
    else:
        sinks.append(SummarySink(sys.stderr))
    opening = Opening(closing=closing, note=note, source="Kafka", is_live=False)
    sinks += other_sinks(asked, opening)
    for sink in sinks:
        closing.callback(sink.close)
    return sinks


class _WaitingLines(io.BufferedIOBase):
    """A file in memory, whose contents ``store`` writes to ``output``."""

    def __init__(self, output: TextIO) -> None:
        super().__init__()
        self._output = output
        self._lines: list[bytes] = []

    def writable(self) -> bool:
        """See ``io.IOBase``."""
        return True

    def isatty(self) -> bool:
        """See ``io.IOBase``."""
        return self._output.isatty()

    def fileno(self) -> int:
        """See ``io.IOBase``."""
        return self._output.fileno()

    def write(self, data: Any, /) -> int:
        """See ``io.BufferedIOBase``."""
        self._lines.append(bytes(data))
        return len(data)

    def store(self) -> None:
        """Write what waits, in one go."""
        lines, self._lines = self._lines, []
        self._output.buffer.write(b"".join(lines))
        self._output.flush()


class _LineStore(Sink):
    """Stores the lines that other sinks wrote to ``text``."""

    wants_messages = False

    def __init__(self, text: TextIO, waiting: _WaitingLines) -> None:
        self._text = text
        self._waiting = waiting

    def persist(self) -> None:
        """See ``Sink``."""
        self._text.flush()
        self._waiting.store()
