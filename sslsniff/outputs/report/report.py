"""Writes a report, one page for a browser, when the capture ends.

While exchanges pass, it keeps a bounded number of them (``kept_exchanges``), and adds all of them
up by host, path and so on. What is kept is encoded at once, as the page will have it.
"""

from collections import OrderedDict
from collections.abc import Iterable
from importlib.metadata import version
from typing import Any, BinaryIO

from sslsniff.core.model import Connection, Exchange, Handshake, NotProbed
from sslsniff.core.rpc_calls import shown_call
from sslsniff.core.sink import FlowControlStall, Sink, Summary
from sslsniff.core.statements import operation_of, shown_statement, without_text
from sslsniff.decoders.messages import Undecoded
from sslsniff.forms.endings import failure
from sslsniff.forms.json.encoded_json import encoded_json
from sslsniff.forms.model_calls import amount_of
from sslsniff.forms.text import pieces
from sslsniff.forms.text.summary import without_request
from sslsniff.forms.text.transactions import idle_session
from sslsniff.outputs.report.connection_objects import stall_object
from sslsniff.outputs.report.details import Details, cut
from sslsniff.outputs.report.failed_handshakes import FailedHandshakes
from sslsniff.outputs.report.group_changes import BY, changes_object, lines_by, raw_paths_object
from sslsniff.outputs.report.group_objects import group_objects, total_object
from sslsniff.outputs.report.kept_exchanges import KeptExchanges
from sslsniff.outputs.report.page_file import PageFile
from sslsniff.outputs.report.page_source import page
from sslsniff.outputs.report.redacted_secrets import RedactedSecrets
from sslsniff.statistics.groups import Groups
from sslsniff.statistics.hops import HopGroups
from sslsniff.statistics.outcome import Outcome
from sslsniff.statistics.tables import Tables

Object = dict[str, Any]

_OF_HOPS = ("host", "path")
_OF_ALL = ("comm", "role", "server", "sni", "status", "protocol")
_MOST_GROUPS = 200
"""Rows of each table of statistics."""

_MOST_STALLS = 1000
_MOST_REASONS = 100
"""Reasons why bytes were not decoded; others are counted together."""

_LISTED_CONNECTIONS = 100
"""Connections that lost bytes; the others are counted."""

_TARGET_CHARACTERS = 200


class ReportSink(Sink):
    """Writes a page to ``file``, which the caller closes, on ``close``.

    ``source``: what was captured, for people. ``expression``: the filter, if there is one.
    ``body_bytes``: see ``Details``. ``most_bytes``: see ``KeptExchanges``.
    Raises ``OutputError`` if the file cannot be written.
    """

    wants_stalls = True
    wants_trees = True

    def __init__(
        self,
        file: BinaryIO,
        *,
        source: str,
        expression: str | None,
        body_bytes: int,
        most_bytes: int,
    ) -> None:
        self.wants_bodies = body_bytes > 0
        self._file = PageFile(file)
        self._about: Object = {
            "source": source,
            "filter": expression,
            "version": version("sslsniff"),
            "body_bytes": body_bytes,
        }
        self._details = Details(body_bytes)
        self._kept = KeptExchanges(most_bytes)
        self._hops = {name: HopGroups((name,), _MOST_GROUPS) for name in _OF_HOPS}
        self._tables = Tables(_OF_ALL, _MOST_GROUPS)
        self._models = Groups(("model",), _MOST_GROUPS)
        self._over_time = lines_by(BY)
        self._stalls: OrderedDict[tuple[object, ...], Object] = OrderedDict()
        self._stalls_left_out = 0
        self._undecoded: dict[str, list[int]] = {}
        self._handshakes = FailedHandshakes()
        self._secrets = RedactedSecrets()
        self._summary: Summary | None = None

    def exchange(self, exchange: Exchange) -> None:
        """See ``Sink``."""
        outcome = Outcome.of(exchange)
        for hops in self._hops.values():
            hops.add(outcome)
        self._tables.add(outcome)
        if outcome.model is not None:
            self._models.add(outcome)
        self._over_time.add(outcome)
        if exchange.redacted is not None:
            self._secrets.add(exchange)
        head, bodies = self._details.head(exchange), self._details.bodies(exchange)
        self._kept.add(exchange.connection, _row(exchange, outcome), _inert(head), _inert(bodies))

    def handshake(self, handshake: Handshake) -> None:
        """See ``Sink``."""
        self._handshakes.add(handshake)

    def stall(self, connection: Connection, stall: FlowControlStall, time_ns: int) -> None:
        """See ``Sink``. A stall is reported twice if it lasts; the second time counts."""
        key = connection.id, stall.stream, stall.side, stall.since_ns
        self._stalls[key] = stall_object(connection, stall, time_ns)
        if len(self._stalls) > _MOST_STALLS:
            self._stalls.popitem(last=False)
            self._stalls_left_out += 1

    def undecoded(self, connection: Connection, message: Undecoded, time_ns: int) -> None:
        """See ``Sink``."""
        known = message.reason in self._undecoded or len(self._undecoded) < _MOST_REASONS
        counts = self._undecoded.setdefault(message.reason if known else "other reasons", [0, 0])
        counts[0] += 1
        counts[1] += message.size

    def closed(self, connection: Connection, time_ns: int) -> None:
        """See ``Sink``."""
        self._kept.closed(connection)
        self._details.forget(connection, time_ns)

    def summary(self, summary: Summary) -> None:
        """See ``Sink``."""
        self._summary = summary

    def close(self) -> None:
        """See ``Sink``: writes the page."""
        kept = self._kept
        connections = b",".join(kept.connections())
        capture = encoded_json(self._capture())[:-1] + b',"connections":{' + connections + b"}}"
        data = {
            "capture": [_inert(capture)],
            "rows": [b"[", *_joined(map(_inert, kept.rows)), b"]"],
            "heads": _lines(kept.heads),
            "bodies": _lines(kept.bodies),
        }
        self._file.write(page(data))

    def _capture(self) -> Object:
        """Return all that the page gets beside exchanges and connections."""
        kept, summary = self._kept, self._summary
        hops = {name: each.groups() for name, each in self._hops.items()}
        groups = {**hops, **self._tables.groups(), "model": self._models}
        return {
            **self._about,
            "summary": None if summary is None else _summary(summary),
            "total": total_object(hops["host"]),
            "groups": {name: group_objects(each) for name, each in groups.items()},
            "changes": changes_object(self._over_time),
            "raw_paths": raw_paths_object(self._over_time),
            "handshakes": self._handshakes.object(),
            "secrets": self._secrets.object(),
            "stalls": [*self._stalls.values()],
            "stalls_left_out": self._stalls_left_out,
            "undecoded": [
                {"reason": reason, "times": times, "bytes": size}
                for reason, (times, size) in self._undecoded.items()
            ],
            "dropped": {
                "rows": kept.rows.dropped,
                "heads": kept.heads.dropped,
                "bodies": kept.bodies.dropped,
            },
        }


def _row(exchange: Exchange, outcome: Outcome) -> list[object]:
    """Return what the list shows of an exchange; ``page/data.js`` names the columns.

    Times are microseconds; null if they are not known.
    """
    call = exchange.model_call
    started_ns = exchange.started_ns
    return [
        started_ns // 1000 or None,
        _span(started_ns, exchange.ended_ns),
        _span(started_ns, exchange.first_byte_ns),
        _span(started_ns, exchange.sent_ns),
        exchange.stream,
        outcome.method,
        outcome.host,
        _target(exchange),
        outcome.path,
        outcome.status,
        outcome.protocol,
        outcome.request_bytes,
        outcome.response_bytes,
        outcome.missing_bytes,
        outcome.error if exchange.ending is None else failure(exchange),
        outcome.is_failed,
        None
        if call is None
        else [
            outcome.model,
            call.api,
            call.usage.input,
            call.usage.output,
            _span(started_ns, call.first_output_ns),
            [each.name for each in call.tool_calls[:10]],
            call.usage.cached,
            call.usage.written,
            amount_of(call),
            call.run and [*call.run[:3], *map(_microseconds, (call.run.tools_ns, call.run.mcp_ns))],
        ],
        exchange.statement is not None,
        exchange.tree
        and [exchange.tree.tree_number, exchange.tree.depth, exchange.tree.is_other_end],
    ]


def _target(exchange: Exchange) -> str | None:
    """Return the target of a request, or what stands in its place.

    That is the text of a statement; without one, its first word; or what is called by JSON-RPC.
    """
    if exchange.rpc is not None:
        return cut(shown_call(exchange.rpc) or "", _TARGET_CHARACTERS)
    statement = exchange.statement
    if statement is not None:
        return cut(shown_statement(statement) or operation_of(statement) or "", _TARGET_CHARACTERS)
    request = exchange.request
    return cut(request.target, _TARGET_CHARACTERS) if request and request.target else None


def _span(start_ns: int, end_ns: int | None) -> int | None:
    """Return ``span_ns`` in whole microseconds."""
    return _microseconds(pieces.span_ns(start_ns, end_ns))


def _microseconds(span_ns: int | None) -> int | None:
    return None if span_ns is None else span_ns // 1000


def _inert(json: bytes) -> bytes:
    r"""Return ``json`` without a ``<``: it cannot end the element of the page that it stands in.

    ``\u003c`` means the same in a string (RFC 8259 section 7), and elsewhere JSON has no ``<``.
    """
    return json.replace(b"<", b"\\u003c")


def _joined(items: Iterable[bytes]) -> list[bytes]:
    return [part for item in items for part in (b",\n", item)][1:]


def _lines(items: Iterable[bytes]) -> list[bytes]:
    return [part for item in items for part in (item, b"\n")]


def _summary(summary: Summary) -> Object:
    lossy = summary.lossy_connections
    return {
        "exchanges": summary.exchanges,
        "shown": summary.shown,
        "shown_connections": summary.shown_connections,
        "shown_bytes": summary.shown_bytes,
        "connections": summary.connections,
        "joined": summary.joined,
        "bytes": summary.bytes,
        "duration_ns": summary.duration_ns,
        "left_out": summary.left_out,
        "evictions": summary.evictions,
        "idle": [*map(idle_session, summary.idle_sessions)],
        "without_request": without_request(summary.without_request)
        if summary.without_request
        else None,
        "without_text": without_text(summary.without_text, tests_sql=summary.tests_sql)
        if summary.without_text
        else None,
        "unplaced_bytes": summary.unplaced_bytes,
        "losses": [
            {"cause": loss.cause.value, "events": loss.events, "bytes": loss.bytes}
            for loss in summary.losses
        ],
        "lossy": [
            {
                "connection": each.id,
                "process": str(each.process),
                "remote": pieces.far_end(each),
                "missing": {cause.value: count for cause, count in each.missing.items()},
            }
            for each in lossy[:_LISTED_CONNECTIONS]
        ],
        "lossy_unlisted": max(0, len(lossy) - _LISTED_CONNECTIONS),
        "handshakes": summary.handshakes.seen,
        "failed_handshakes": summary.handshakes.failed,
        "secrets": summary.secrets.total,
        "not_probed": summary.not_probed
        if summary.not_probed is None
        else [*map(_not_probed, summary.not_probed)],
    }


def _not_probed(found: NotProbed) -> Object:
    return {
        "library": found.name,
        "version": found.version,
        "file": found.file,
        "processes": found.processes,
        "connections": found.connections,
        "first": found.first and str(found.first),
        "reason": found.reason,
        "remedy": found.remedy,
    }
