"""The panes of one exchange: what was sent, messages, the conversation with a model, bytes."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import orjson

from sslsniff.core.errors import grouped
from sslsniff.core.escaping import escape, escape_lines
from sslsniff.core.model import Body
from sslsniff.core.redacted import counts_of
from sslsniff.core.statements import shown_parameter, shown_statement, statement_of
from sslsniff.decoders.inner.models.model_apis import answer_so_far
from sslsniff.forms.model_calls import llm_object, run_text, shown_cost
from sslsniff.forms.text import pieces
from sslsniff.forms.text.bodies import body_lines, indent_json
from sslsniff.forms.text.hexdump import hexdump
from sslsniff.forms.text.lines import redacted_text
from sslsniff.forms.text.transactions import transaction_remarks
from sslsniff.screen.captured.capture_rows import ExchangeRow
from sslsniff.screen.captured.rebuilt_exchanges import data_of, headers_of, nanoseconds
from sslsniff.screen.widgets.shown_line import (
    DIM,
    FAULT,
    LOSS,
    ShownLine,
    language_of,
    named_line,
    styled_line,
    title,
)

Object = dict[str, Any]
Lines = list[ShownLine]

_MOST_DUMPED = 256 << 10
"""Bytes of a body that are shown in hexadecimal: the screen asks for 64 KiB of what was sent."""
_MOST_MESSAGES = 500
"""The last ones of an exchange are shown: a stream of events may have no end."""
_PREVIEW = 4 << 10


def exchange_lines(
    row: ExchangeRow, shown: Object | None, redacted: Callable[[str], str] = str
) -> Lines:
    """Return what is known of an exchange; ``shown`` is its object, None while it is open.

    ``redacted`` returns text as it may be seen.
    """
    lines = [styled_line(escape(row.title(redacted(row.url))), "bold")]
    lines += _facts(row, shown)
    if shown is None:
        return lines
    if "db" in shown:
        return [*lines, *_statement(shown["db"], redacted)]
    if "rpc" in shown:
        return [*lines, *_rpc(shown["rpc"], redacted)]
    for name in ("request", "response"):
        message = shown[name]
        if message is None:
            lines += (*title(name.capitalize()), styled_line("it was not seen", DIM))
            continue
        lines += _message(name.capitalize(), message, row)
    return lines


def _statement(shown: Object, redacted: Callable[[str], str]) -> Iterator[ShownLine]:
    for name in ("database", "user", "rows", "affected", "code", "error"):
        if shown[name] is not None:
            yield named_line(name, escape(redacted(str(shown[name]))))
    for remark in transaction_remarks(statement_of(shown)):
        yield styled_line(remark, LOSS)
    yield from title("Statement")
    for line in (shown["text"] or _unseen(shown)).splitlines():
        yield ShownLine(escape(redacted(line)))
    if shown["parameters"]:
        yield from title("Parameters")
        for number, each in enumerate(shown["parameters"], 1):
            yield named_line(f"${number}", escape(redacted(shown_parameter(each))))


def _unseen(shown: Object) -> str:
    name = shown_statement(replace(statement_of(shown), parameters=None))
    return f"{name}: its text was not seen" if name else "it has no text"


def _rpc(shown: Object, redacted: Callable[[str], str]) -> Iterator[ShownLine]:
    for name in ("id", "code", "error", "cancelled", "incomplete"):
        if shown[name] is not None:
            yield named_line(name, escape(redacted(str(shown[name]))))
    for name in ("parameters", "result"):
        if shown[name] is not None:
            yield from title(name.capitalize())
            text = redacted(shown[name])
            for line in escape_lines(indent_json(text) or text).split("\n"):
                yield ShownLine(line, language="json")


def _facts(row: ExchangeRow, shown: Object | None) -> Iterator[ShownLine]:
    connection = row.connection
    if row.is_open:
        yield styled_line("it has not ended yet", DIM)
    stream = "" if row.stream is None else f", stream {row.stream}"
    yield named_line("protocol", escape(f"{row.protocol}{stream}"))
    yield named_line("process", escape(f"{row.comm}[{row.pid}]") if row.pid > 0 else "not known")
    yield named_line("connection", escape(connection.id))
    ends = f"{connection.client or '?'} -> {connection.server or '?'}"
    yield named_line("addresses", escape(ends))
    handshake = (connection.library, connection.tls_version, connection.cipher, connection.sni)
    yield named_line("TLS", escape(", ".join(filter(None, handshake))))
    yield named_line("began", escape(row.time) or "not known")
    if shown is None:
        return
    spans = (("first byte", row.first_byte), ("duration", row.duration))
    yield named_line("times", ", ".join(f"{name} {_span(span)}" for name, span in spans))
    if row.error:
        error = (shown.get("ending") or {}).get("text") or row.error
        yield styled_line(escape(f"error: {error}"), FAULT)
    if row.missing:
        yield styled_line(f"{grouped(row.missing, 'byte was', 'bytes were')} not captured", LOSS)
    for warning in shown.get("warnings", ()):
        yield styled_line(escape(f"warning: {warning}"), FAULT)
    if shown.get("omitted"):
        yield styled_line(f"{shown['omitted']['fields']} more header fields are not shown", LOSS)
    for secret, count in counts_of(shown.get("redacted", [])).items():
        yield named_line("blanked", escape(redacted_text(secret, count)))
    for each in shown["informational"]:
        yield named_line("before it", escape(f"{each['status']} {each['reason']}"))
    for call in shown.get("calls") or ():
        yield named_line("call", escape(f"{call['function']} {call.get('args', '')}"))


def _span(span_ms: float) -> str:
    return "?" if span_ms < 0 else pieces.duration(round(span_ms * 1e6))


def _message(name: str, message: Object, row: ExchangeRow) -> Iterator[ShownLine]:
    yield from title(name)
    if "status" in message:
        status = "?" if message["status"] is None else message["status"]
        yield styled_line(escape(f"{status} {message['reason']}"), "bold")
    yield from _header_lines(message["headers"])
    yield from _body(message, row)
    if message["trailers"]:
        yield from title(f"{name}, trailers")
        yield from _header_lines(message["trailers"])


def _header_lines(pairs: list[list[str | None]]) -> Iterator[ShownLine]:
    for name, value in pairs:
        yield named_line(
            "?" if name is None else escape(name), "?" if value is None else escape(value)
        )


def _body(message: Object, row: ExchangeRow) -> Iterator[ShownLine]:
    shown, headers = message["body"], headers_of(message["headers"])
    if not shown["size"]:
        return
    if not row.is_whole:
        yield styled_line(f"(body of {pieces.size(shown['size'])}: dropped to free memory)", LOSS)
        return
    yield ShownLine("")
    language = language_of(headers.first("content-type") or "")
    for line in body_lines(Body(shown["size"], data_of(shown)), headers):
        yield ShownLine(line, language=language)


def message_lines(row: ExchangeRow, objects: list[Object]) -> Lines:
    """Return the messages of WebSocket, gRPC and server-sent events, in order."""
    if not objects:
        dropped = "its messages were dropped to free memory" if not row.is_whole else ""
        return [styled_line(dropped or "it has no messages of WebSocket, gRPC or events", DIM)]
    lines: Lines = []
    began_ns = nanoseconds(row.time)
    if len(objects) > _MOST_MESSAGES:
        lines.append(styled_line(f"{len(objects) - _MOST_MESSAGES} earlier ones not shown", DIM))
    for each in objects[-_MOST_MESSAGES:]:
        after = pieces.duration_between(began_ns, nanoseconds(each["time"]))
        by_client = (each["direction"] == "write") == (row.connection.role == "client")
        arrow, style = ("->", "cyan") if by_client else ("<-", "green")
        kind = " ".join(str(each[key]) for key in ("opcode", "event", "code") if each.get(key))
        head = (
            f"{arrow} {after:>9}  {kind or each['protocol']}  {pieces.size(each['data']['size'])}"
        )
        lines.append(ShownLine(escape(head), ((0, 2, style), (2, len(head), DIM))))
        lines += _content(each)
        if each["missing_bytes"]:
            lines.append(styled_line(f"{grouped(each['missing_bytes'], 'byte')} missing", LOSS))
        if each["error"]:
            lines.append(styled_line(escape(f"error: {each['error']}"), FAULT))
    return lines


def _content(message: Object) -> Iterator[ShownLine]:
    fields = message.get("named") or message.get("fields")
    if fields:
        text = orjson.dumps(fields).decode()
    elif "text" in message["data"]:
        text = message["data"]["text"]
    else:
        yield from (ShownLine(f"   {line}") for line in hexdump(data_of(message["data"])[:512]))
        return
    cut = text[:_PREVIEW]
    for line in escape_lines(indent_json(cut) or cut).split("\n"):
        yield ShownLine(f"   {line}", language="json")
    if len(text) > len(cut):
        yield styled_line(f"   ({len(text) - len(cut):,} more characters)", DIM)


def conversation_lines(model: Object | None) -> Lines:
    """Return a call of a language model as a conversation, its answer put together."""
    if model is None:
        return [styled_line("it is no call of a language model", DIM)]
    asked = model["response_model"] or model["model"] or model["method"] or "?"
    lines = [styled_line(escape(f"{asked} ({model['api']})"), "bold")]
    usage = model["usage"]
    counts = [
        f"{count} {name.replace('_', ' ')}"
        for name, count in usage.items()
        if name.endswith("_tokens") and count is not None
    ]
    if counts:
        lines.append(named_line("usage", escape(", ".join(counts))))
    for cost in shown_cost(model["cost"], model["currency"]):
        lines.append(named_line("cost", escape(cost)))
    if model["run"] is not None:
        lines.append(named_line("run", escape(run_text(model["run"]))))
    if model["first_output_ms"] is not None:
        lines.append(named_line("first output after", f"{model['first_output_ms']:.1f} ms"))
    if model["finish_reason"]:
        lines.append(named_line("finish", escape(model["finish_reason"])))
    if model["tools"]:
        lines.append(named_line("tools", escape(", ".join(model["tools"]))))
    for turn in model["messages"]:
        lines += _turn(turn["role"], turn["text"], turn["tool_calls"], turn["other"])
    if model["reasoning"]:
        lines += _turn("reasoning", model["reasoning"], [], [])
    lines += _turn("answer", model["text"], model["tool_calls"], [])
    for name in ("error", "incomplete"):
        if model[name]:
            lines.append(styled_line(escape(f"{name}: {model[name]}"), FAULT))
    return lines


def open_conversation_lines(messages: list[Object]) -> Lines:
    """Return what a language model has answered so far, by the events of an open exchange."""
    events = [each for each in messages if each.get("opcode") == "event"]
    target = events[0]["target"] if events else None
    call = answer_so_far(target, (data_of(each["data"]) for each in events)) if target else None
    if call is None:
        return [styled_line("nothing shows a call of a language model so far", DIM)]
    lines = conversation_lines(llm_object(call, 0))
    return [*lines, styled_line("(what was asked is shown when the answer has ended)", DIM)]


def _turn(role: str, text: str, calls: Iterable[Object], other: list[str]) -> Iterator[ShownLine]:
    yield from title(escape(role))
    if text:
        yield from (ShownLine(line) for line in escape_lines(text).split("\n"))
    for kind in other:
        yield styled_line(escape(f"({kind})"), DIM)
    for call in calls:
        name = escape(call["name"] or "?")
        yield ShownLine(f"calls {name}", ((0, 6 + len(name), "bold yellow"),))
        arguments = indent_json(call["arguments"]) or call["arguments"]
        for line in escape_lines(arguments).split("\n"):
            yield ShownLine(f"  {line}", language="json")


def hex_lines(shown: Object | None) -> Lines:
    """Return the bodies as sent, in hexadecimal."""
    lines: Lines = []
    for name in ("request", "response"):
        body = ((shown or {}).get(name) or {}).get("body")
        if not body or not body["size"]:
            continue
        data = data_of(body)
        lines += title(f"{name.capitalize()}: body as sent, {grouped(body['size'], 'byte')}")
        lines += [ShownLine(line) for line in hexdump(data[:_MOST_DUMPED])]
        if len(data) < body["size"]:
            lines.append(styled_line(f"({body['size'] - len(data):,} more are not stored)", LOSS))
    return lines or [styled_line("it has no body", DIM)]
