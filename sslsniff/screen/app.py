"""The application of ``sslsniff top``: its views, its keys, and the timer that refreshes it."""

import asyncio
import gc
import math
import signal
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import ClassVar

from textual import events, work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import ContentSwitcher, Input, Static

from sslsniff.core.errors import OutputError, SslsniffError, grouped
from sslsniff.core.escaping import escape
from sslsniff.filters.filters import Filter
from sslsniff.screen import saving
from sslsniff.screen.captured.capture_process import CaptureState
from sslsniff.screen.captured.capture_store import Store
from sslsniff.screen.contents.capture_lines import capture_lines, state_of
from sslsniff.screen.contents.key_lines import key_lines
from sslsniff.screen.contents.statistics_lines import Statistics
from sslsniff.screen.contents.tab_line import VIEWS, tab_line
from sslsniff.screen.courtesy import Courtesy
from sslsniff.screen.view_redaction import ViewRedaction
from sslsniff.screen.views.connection_view import ConnectionView
from sslsniff.screen.views.exchange_view import ExchangeView
from sslsniff.screen.views.statistics_view import StatisticsView
from sslsniff.screen.widgets.expression_input import ExpressionInput
from sslsniff.screen.widgets.line_view import LineView
from sslsniff.screen.widgets.save_line import SaveLine

_OFFERED = {
    "keys": "? Keys",
    "quit": "q Quit",
    "filter": "/ Filter",
    "copy": "c curl",
    "save": "w Save",
    "redact": "r Redact",
    "light": "d Light",
    "wireshark": "W Wireshark",
}
"""What the last line offers to a click, and the key of each."""
_OFFERED_OF = {
    "exchanges": "Enter Detail  e Failed  ←→ Pane  f Follow  m Mark  s Sort",
    "connections": "Enter Waterfall  s Sort",
    "statistics": "g Group by  s Sort  Enter Raw paths",
}
"""What it names besides in a view."""
_REFRESH_S = 0.2
_LATE_S = 0.1
_DRAWN_SHARE = 0.02
"""The share of a CPU that drawing takes at most, if no key is pressed."""
_SAID_S = 8
_RATE_OVER = 5
"""The rate of exchanges is that of the last second: of so many refreshes."""
_COMPLETED = {"d": "host", "m": "method", "c": "status", "comm": "comm", "pid": "pid"}
_COMPLETED |= {"proto": "protocol", "model": "model"}
"""Which field of outcomes has the values that an operator of a filter tests."""


class ScreenApp(App[None]):
    """Shows what is in ``store``.

    ``command``: the arguments of the capture. ``state``: returns that of the capture; the screen
    ends if it failed to start. ``source``: a capture file that has what is shown; None: there is
    none. ``is_redacted``: whether the capture itself blanks secrets. ``courtesy``: makes the object
    that leaves CPU time to others, once the capture has started.
    """

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #tabs { height: 1; background: $panel; color: $foreground; }
    #state { height: 1; background: $surface; color: $text-muted; text-wrap: nowrap; }
    #tabs, #offered, #panes, #grouping { link-style: none; link-color: $foreground; }
    ContentSwitcher { height: 1fr; }
    #offered { height: 1; background: $panel; text-wrap: nowrap; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark,5,f1", "keys", "all keys"),
        Binding("slash", "filter", "filter", priority=True),
        Binding("e", "failures", "only what failed, or all"),
        Binding("1", "view('exchanges')", "exchanges"),
        Binding("2", "view('connections')", "connections, and a waterfall of each"),
        Binding("3", "view('statistics')", "statistics"),
        Binding("4", "view('capture')", "what is probed, what is not, what was lost"),
        Binding("c", "copy", "copy the request as a curl command"),
        Binding("w", "save", "save what is marked, as pcapng, HAR or JSON", priority=True),
        Binding("W", "wireshark", "open what is marked in Wireshark"),
        Binding("r", "redact", "blank secrets, or show them"),
        Binding("d", "light", "dark or light"),
        Binding("q,ctrl+c", "quit", "quit"),
    ]

    def __init__(
        self,
        store: Store,
        statistics: Statistics,
        command: str,
        state: Callable[[], CaptureState],
        source: str | None = None,
        *,
        is_redacted: bool = False,
        courtesy: Callable[[], Courtesy] | None = None,
    ) -> None:
        super().__init__()
        self._courtesy: Courtesy | None = None
        self._make_courtesy = courtesy
        self._store, self._statistics = store, statistics
        self._command, self._state = command, state
        self._source, self._is_redacted = source, is_redacted
        self._version = -1
        self._counts = [0] * _RATE_OVER
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        """What Wireshark reads; it ends with the screen."""
        self._saved = 0
        self._drawn: dict[str, object] = {}
        self._said: Content | None = None
        self._said_until = 0.0
        self._due_s = math.inf
        self._draw_from_s = 0.0

    def compose(self) -> ComposeResult:
        """See ``App``."""
        yield Static(id="tabs")
        yield Static(id="state", markup=False)
        with ContentSwitcher(initial=VIEWS[0], id="views"):
            yield ExchangeView(self._store)
            yield ConnectionView(self._store)
            yield StatisticsView(self._store, self._statistics)
            yield LineView(id="capture")
            yield LineView(id="keys")
        yield ExpressionInput(self._values)
        yield SaveLine(saving.check_name)
        yield Static(id="offered")

    def on_mount(self) -> None:
        """Begin to refresh; end in order whatever ends the process."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            asyncio.get_running_loop().add_signal_handler(number, self.exit)
        self.exchanges.table.focus()
        # What is there by now stays: without it, each full collection takes 5 ms, not 65.
        gc.freeze()
        self.set_interval(_REFRESH_S, self.refresh_views)
        self.refresh_views()

    @property
    def exchanges(self) -> ExchangeView:
        """The view of exchanges."""
        return self.query_one(ExchangeView)

    @property
    def view(self) -> str:
        """The name of the view that is visible."""
        return self.query_one(ContentSwitcher).current or VIEWS[0]

    def refresh_views(self) -> None:
        """Show what came since the last call; never called for a single exchange."""
        if not self.query("#offered"):
            return  # the widgets are being removed: this is the end
        state = self._state()
        if state.has_failed_to_start:
            self.exit()
            return
        if state.has_started and self._courtesy is None and self._make_courtesy is not None:
            self._courtesy = self._make_courtesy()
        now_s, began_s = time.monotonic(), time.thread_time()
        if self._courtesy is not None:
            self._courtesy.update(now_s=now_s, is_late=now_s > self._due_s + _LATE_S)
        self._due_s = now_s + _REFRESH_S
        self._counts = [*self._counts[1:], self._store.ended]
        if now_s < self._draw_from_s:
            return
        self.call_after_refresh(self._note_drawn, began_s)
        self._show_state()
        if self._version == self._store.version:
            return
        self._version = self._store.version
        if self.view == "exchanges":
            self.exchanges.refresh_rows()
        else:
            self._refresh_other(self.view)

    async def on_event(self, event: events.Event) -> None:
        """See ``App``; what a key or the mouse changes is drawn at once."""
        if isinstance(event, events.InputEvent):
            self._draw_from_s = 0.0
        await super().on_event(event)

    def _note_drawn(self, began_s: float) -> None:
        """Keep the time until the next drawing, so that all of them take their share."""
        took_s = time.thread_time() - began_s
        self._draw_from_s = time.monotonic() + took_s / _DRAWN_SHARE

    def _refresh_other(self, view: str) -> None:
        if view == "connections":
            self.query_one(ConnectionView).refresh_rows()
        elif view == "statistics":
            self.query_one(StatisticsView).refresh_rows()
        elif view == "capture":
            lines = capture_lines(self._store, self._command, self._state())
            self.query_one("#capture", LineView).show_lines(lines, stay=True)

    def _show_state(self) -> None:
        """Draw the lines of tabs, state and keys, those that have changed."""
        is_said = self._said is not None and time.monotonic() < self._said_until
        view, capture, width = self.view, self._state(), self.size.width
        runs = capture.exit_code is None
        rate = (self._counts[-1] - self._counts[0]) / (_REFRESH_S * (_RATE_OVER - 1))
        figures = f"{self._store.ended:,}" + (f"  {rate:,.0f}/s" if runs else "")
        state = " " + "  ".join(self._facts(capture))
        lines: list[tuple[str, object, Callable[[], Content]]] = [
            ("tabs", (view, figures, width), lambda: tab_line(view, figures, width)),
            ("state", state, lambda: Content(state)),
            ("offered", self._said if is_said else view, lambda: self._said_or_keys(is_said)),
        ]
        for name, shown, make in lines:
            if self._drawn.get(name) != shown:
                self._drawn[name] = shown
                self.query_one(f"#{name}", Static).update(make(), layout=False)

    def _said_or_keys(self, is_said: bool) -> Content:
        if is_said and self._said is not None:
            return self._said
        keys = "  ".join(f"[@click=app.{each}]{text}[/]" for each, text in _OFFERED.items())
        return Content.from_markup(f" {keys}  {_OFFERED_OF.get(self.view, '')}")

    def _facts(self, capture: CaptureState) -> Iterable[str]:
        """Yield what the line of the state says, the most important first."""
        view, losses = self.exchanges, self._store.losses
        yield f"capture {state_of(capture)}"
        yield grouped(losses.bytes, "byte") + " lost" + (" (key 4)" if losses.bytes else "")
        if self._store.stalls.stalled_connections:
            yield f"{grouped(self._store.stalls.stalled_connections, 'connection')} stalled (key 2)"
        if self.view == "statistics" and view.list.is_filtered:
            yield f"figures of all {self._store.ended:,}, not only of those that match"
        else:
            yield from view.facts(is_running=capture.exit_code is None)
        if self._is_redacted or view.redaction is not None:
            yield "redacted"
        dropped = self._store.dropped
        if dropped.exchanges or dropped.bodies:
            bodies = grouped(dropped.bodies, "body", "bodies")
            yield f"dropped: {bodies}, {grouped(dropped.exchanges, 'exchange')}"
        yield escape(self._command)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool:
        """Return whether an action is possible: where text is typed, its keys are text.

        The actions that open a place for text are bound with priority, so that the keys after
        theirs go to that place, however quickly they come.
        """
        return action not in {"filter", "save"} or not isinstance(self.focused, Input)

    def action_view(self, name: str) -> None:
        """Show a view."""
        self.query_one(ContentSwitcher).current = name
        self._refresh_other(name)
        if name == "exchanges":
            self.exchanges.refresh_rows()
        is_text = name in {"capture", "keys"}
        # At once: the next key may be there already.
        self.screen.set_focus(self.query_one(f"#{name}" if is_text else f"#{name} RowTable"))
        self._show_state()

    def action_filter(self) -> None:
        """Read a filter expression."""
        self.action_view("exchanges")
        self.query_one(ExpressionInput).open()

    def action_failures(self) -> None:
        """List only what failed, or all again."""
        self.exchanges.toggle_failures()
        self.action_view("exchanges")

    def on_expression_input_changed(self, event: ExpressionInput.Changed) -> None:
        """List what matches."""
        self._filter(event.text, event.expression)

    def on_exchange_view_altered(self) -> None:
        """Say what is marked, and whether the list follows."""
        self._show_state()

    def on_input_line_left(self) -> None:
        """Give the keys back to the list."""
        self.exchanges.table.focus()

    def _filter(self, text: str, expression: Filter | None) -> None:
        self.exchanges.filter_by(expression, text)
        self._show_state()

    def _values(self, operator: str) -> Iterable[str]:
        field = _COMPLETED.get(operator)
        with self._store.lock:
            values = self._statistics.values(field) if field else ()
            # ~c takes numbers: no status of a statement.
            return [each for each in values if operator != "c" or each.isdecimal()]

    def action_keys(self) -> None:
        """Show all keys."""
        parts = (
            ("Everywhere", self),
            ("Exchanges", self.exchanges),
            ("Lists", self.exchanges.table),
            ("Statistics", self.query_one(StatisticsView)),
            ("Texts", self.query_one("#keys", LineView)),
            ("Filter", self.query_one(ExpressionInput)),
        )
        lines = key_lines((name, part.BINDINGS) for name, part in parts)
        self.query_one("#keys", LineView).show_lines(lines)
        self.action_view("keys")

    def action_redact(self) -> None:
        """Blank secrets in all that is shown, copied and saved, or show them again."""
        if self._is_redacted:
            self._say("the capture was started with --redact: nothing can bring the secrets back")
            return
        view = self.exchanges
        view.redact(None if view.redaction is not None else ViewRedaction())
        self.query_one(ConnectionView).redaction = view.redaction
        self._show_state()

    def action_light(self) -> None:
        """Change between dark and light."""
        self.theme = "textual-light" if self.current_theme.dark else "textual-dark"

    def action_copy(self) -> None:
        """Copy the request with the cursor as a curl command."""
        row = self.exchanges.table.cursor
        shown = self.exchanges.object_of(row) if row is not None else None
        if shown is None:
            self._fail("there is no exchange that has ended: choose one")
            return
        try:
            command = saving.curl_command(shown)
        except OutputError as error:
            self._fail(str(error))
            return
        self.copy_to_clipboard(command)
        self._say(f"copied: {escape(command)}")

    def action_save(self) -> None:
        """Ask for a name to save the marked exchanges to, or the one with the cursor."""
        rows = self.exchanges.selection()
        if not rows:
            self._fail("there is no exchange that has ended: choose one, or mark some")
            return
        self.action_view("exchanges")
        self.query_one(SaveLine).ask(grouped(len(rows), "exchange"))

    def on_save_line_save_to(self, event: SaveLine.SaveTo) -> None:
        """Save to the file of this name."""
        self._start(self._save, event.path)

    def action_wireshark(self) -> None:
        """Open the connections of the marked exchanges in Wireshark."""
        self._start(self._open_in_wireshark)

    @work(group="save")
    async def _start(self, task: Callable[..., str], *arguments: str) -> None:
        """Do in a thread what may take long, and say how it ended."""
        try:
            self._say(await asyncio.to_thread(task, *arguments))
        except SslsniffError as error:
            self._fail(str(error))

    def _save(self, path: str) -> str:
        view = self.exchanges
        objects = [(view.object_of(row), row.connection.sni) for row in view.selection()]
        saved = [(shown, sni) for shown, sni in objects if shown is not None]
        redacts = view.redaction is not None
        return saving.save(path, saved, self._source, redacts=redacts)

    def _open_in_wireshark(self) -> str:
        program = saving.find_wireshark()
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="sslsniff-")
        self._saved += 1
        path = str(Path(self._folder.name) / f"selection-{self._saved}.pcapng")
        said = self._save(path)
        saving.start_wireshark(program, path)
        return f"opened in Wireshark: {said}"

    def _say(self, text: str) -> None:
        self._show_message(Content.styled(f" {escape(text)}", "bold $success"))

    def _fail(self, text: str) -> None:
        self._show_message(Content.styled(f" {escape(text)}", "bold $error"))

    def _show_message(self, line: Content) -> None:
        """Show a message for a while, in place of the keys: a box would cover rows."""
        self._said, self._said_until = line, time.monotonic() + _SAID_S
        self._show_state()
