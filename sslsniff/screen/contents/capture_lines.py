"""The pane of the capture: its state, what is probed, what is not and why, and what was lost."""

from collections.abc import Iterable

from sslsniff.core.errors import grouped
from sslsniff.core.escaping import escape
from sslsniff.core.statements import without_text
from sslsniff.forms.text import pieces
from sslsniff.forms.text.summary import without_request
from sslsniff.screen.captured.capture_process import PREFIX, CaptureState
from sslsniff.screen.captured.capture_store import (
    MOST_EXCHANGE_BYTES,
    MOST_EXCHANGES,
    Object,
    Store,
)
from sslsniff.screen.widgets.shown_line import (
    DIM,
    FAULT,
    LOSS,
    ShownLine,
    named_line,
    styled_line,
    title,
)

_NOT_PROBED = "not probed: "


def capture_lines(store: Store, command: str, state: CaptureState) -> list[ShownLine]:
    """Return the lines. ``state``: that of the capture ``command``."""
    with store.lock:
        notes = [line.removeprefix(PREFIX) for line in store.notes]
        return [
            *_state(store, command, state),
            *title("What was lost"),
            *_losses(store),
            *title("What is not probed, and why"),
            *_not_probed(store, notes),
            *title("What the capture says"),
            *_notes(store, notes),
            *title("What this screen dropped, to bound its memory"),
            *_dropped(store),
        ]


def state_of(state: CaptureState) -> str:
    """Return whether the capture runs, in words."""
    code = state.exit_code
    if code is None:
        return "running" if state.has_started else "starting"
    return "ended" if code == 0 else f"failed with exit code {code}"


def _state(store: Store, command: str, state: CaptureState) -> Iterable[ShownLine]:
    yield named_line("capture", escape(command), "bold")
    yield named_line("state", state_of(state), FAULT if state.exit_code else "bold")
    summary = store.summary
    if summary is not None:
        yield named_line("summary", ", ".join(_figures(summary)), "bold")
        if (count := summary.get("exchanges_without_request")) is not None:
            yield named_line("requests", without_request(count))
        if (count := summary.get("statements_without_text")) is not None:
            yield named_line("SQL", without_text(count, tests_sql=False))
    else:
        yield named_line("so far", grouped(store.ended, "exchange"), "bold")


def _figures(summary: Object) -> Iterable[str]:
    """Yield the figures; where the capture has a filter, what it let through of all."""
    is_filtered = "shown" in summary
    of = f"{summary['shown']:,} shown of " if is_filtered else ""
    yield of + grouped(summary["exchanges"] or 0, "exchange")
    of = f"{summary['shown_connections']:,} of " if is_filtered else ""
    joined = f"{summary['joined_connections']}{' of all' if is_filtered else ''}"
    yield of + f"{grouped(summary['connections'], 'connection')} ({joined} joined in the middle)"
    of = f"{pieces.size(summary['shown_bytes'])} of " if is_filtered else ""
    yield of + f"{pieces.size(summary['bytes'])} of plaintext in {summary['duration_s']:.1f} s"


def _losses(store: Store) -> Iterable[ShownLine]:
    found = store.losses.by_cause
    if not found:
        more = "" if store.summary is not None else " so far"
        yield ShownLine(f"nothing{more}: 0 bytes")
    for cause, (events, lost) in found.items():
        said = f"{cause}: {grouped(lost, 'byte')} in {grouped(events, 'event')}"
        yield styled_line(escape(said), LOSS)


def _not_probed(store: Store, notes: list[str]) -> Iterable[ShownLine]:
    found = None if store.summary is None else store.summary.get("not_probed")
    said = [line.removeprefix(_NOT_PROBED) for line in notes if line.startswith(_NOT_PROBED)]
    for line in dict.fromkeys(said):
        yield styled_line(escape(line), LOSS)
    if said:
        return
    for each in found or ():
        remedy = f"; {each['remedy']}" if each["remedy"] else ""
        who = f"{each['library']} in {each['comm']}[{each['pid']}] ({each['file']})"
        yield styled_line(escape(f"{who}: {each['reason']}{remedy}"), LOSS)
    if not found:
        known = "no TLS library that was seen" if found is not None else "none was named so far"
        yield styled_line(known, DIM)


def _notes(store: Store, notes: list[str]) -> Iterable[ShownLine]:
    if store.dropped.notes:
        yield styled_line(f"({store.dropped.notes:,} earlier lines dropped)", DIM)
    for line in notes:
        if not line.startswith(_NOT_PROBED):
            yield ShownLine(escape(line))


def _dropped(store: Store) -> Iterable[ShownLine]:
    dropped = store.dropped
    rows = (
        (dropped.exchanges, f"exchanges (it stores {MOST_EXCHANGES:,})"),
        (dropped.bodies, f"exchanges' bodies (it stores {MOST_EXCHANGE_BYTES >> 20} MiB)"),
        (dropped.frames, "HTTP/2 frames"),
        (dropped.connections, "connections"),
    )
    for count, what in rows:
        if count:
            yield styled_line(f"the oldest {count:,} {what}", LOSS)
    if not any(count for count, _ in rows):
        yield styled_line("nothing", DIM)
