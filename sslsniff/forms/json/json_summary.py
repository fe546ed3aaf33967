"""Writes the last JSON lines of a capture: what was lost, and its figures (docs/json.md)."""

from dataclasses import asdict
from typing import Any, BinaryIO

from sslsniff.core.model import NotProbed
from sslsniff.core.sink import HandshakeCounts, IdleSession, Sink, Summary
from sslsniff.forms.json.encoded_json import encoded_json

Object = dict[str, Any]


class JsonSummary(Sink):
    """Writes to ``stream`` at the end of the capture only."""

    wants_messages = False

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def summary(self, summary: Summary) -> None:
        """See ``Sink``."""
        for loss in summary.losses:
            line: Object = {
                "type": "loss",
                "time": None,
                "cause": loss.cause.value,
                "events": loss.events,
                "bytes": loss.bytes,
            }
            self._stream.write(encoded_json(line) + b"\n")
        line = {
            "type": "summary",
            "exchanges": summary.exchanges,
            "connections": summary.connections,
            "joined_connections": summary.joined,
            "bytes": summary.bytes,
            "lost_events": sum(loss.events for loss in summary.losses),
            "lost_bytes": sum(loss.bytes for loss in summary.losses),
            "duration_s": round(summary.duration_ns / 1e9, 6),
        }
        if summary.shown is not None:
            line["shown"] = summary.shown
            line["shown_connections"] = summary.shown_connections
            line["shown_bytes"] = summary.shown_bytes
        if summary.without_request:
            line["exchanges_without_request"] = summary.without_request
        if summary.without_text:
            line["statements_without_text"] = summary.without_text
        if summary.idle_sessions:
            line["idle_in_transaction"] = [*map(_idle_session, summary.idle_sessions)]
        if summary.evictions:
            line["evictions"] = summary.evictions
        if summary.trees is not None:
            line["trees"] = asdict(summary.trees)
        if summary.secrets.counts:
            line["redacted"] = [
                {"name": name, "pattern": pattern, "count": count}
                for name, pattern, count in summary.secrets.most()
            ]
        if summary.left_out is not None:
            line["left_out_connections"] = summary.left_out
        if summary.not_probed is not None:
            line |= _handshakes(summary.handshakes)
            line["not_probed"] = [*map(_not_probed, summary.not_probed)]
        self._stream.write(encoded_json(line) + b"\n")

    def flush(self) -> None:
        """See ``Sink``."""
        self._stream.flush()


def _handshakes(counts: HandshakeCounts) -> Object:
    """Return the figures of handshakes, which only a live capture has."""
    found: Object = {"handshakes": counts.seen}
    if counts.unused:
        found["unused_handshakes"] = counts.unused
    if counts.failed:
        found["failed_handshakes"] = counts.failed
        found["handshake_failures"] = [
            {"failure": kind, "text": text, "count": count}
            for (kind, text), count in counts.failures.items()
        ]
    return found


def _idle_session(session: IdleSession) -> Object:
    process = session.connection.process
    return {
        "connection": session.connection.id,
        "pid": process.pid if process.is_known else None,
        "comm": process.comm if process.is_known else None,
        "idle_ms": round(session.idle_ns / 1e6, 3),
    }


def _not_probed(found: NotProbed) -> Object:
    return {
        "library": found.library,
        "version": found.version,
        "file": found.file,
        "files": found.files,
        "pid": found.first and found.first.pid,
        "comm": found.first and found.first.comm,
        "processes": found.processes,
        "connections": found.connections,
        "peer": found.peer or None,
        "reason": found.reason,
        "remedy": found.remedy or None,
    }
