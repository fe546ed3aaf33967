"""Says in words what a flow-control stall is: who does not read, and who waits for it.

A receiver gives a window back as its program reads (RFC 9113 section 5.2.2), after the time that
the network needs. So only of a stall that lasts for a second or more it is said who does not read.
"""

from sslsniff.core.sink import FlowControlStall
from sslsniff.forms.text import pieces
from sslsniff.forms.text.cutting import cut_middle

_UNREAD_AFTER_NS = 1_000_000_000
"""No network needs so long for the way to the receiver and back."""
_MOST_COLUMNS = 60
"""The width to which method and path of a stream are cut."""


def stall_text(stall: FlowControlStall, time_ns: int) -> str:
    """Return one sentence, without its full stop, about a stall that lasted until ``time_ns``.

    Such as ``the server does not read stream 7 GET /report (258,144 B of the connection's window of
    262,144 B are not given back); streams 9 GET /a and 11 GET /b wait for it``; in the past if the
    stall is over.
    """
    use = stall.use
    stalled = f"the window of stream {_named(stall, stall.stream)}"
    name = stalled if stall.stream else "the connection's window"
    if use is None:
        said = f"{name} {'was' if stall.is_over else 'is'} 0"
        return said if stall.stream else f"{said}: no stream may send"
    lasted_ns = pieces.span_ns(stall.since_ns, time_ns)
    is_unread = use.holder is not None and lasted_ns is not None and lasted_ns >= _UNREAD_AFTER_NS
    holder = None if use.holder is None else _named(stall, use.holder)
    be, are, do = ("was", "were", "did") if stall.is_over else ("is", "are", "does")
    receiver = f"the {stall.side.other.value}"
    whole = f"of {use.window_bytes:,} B"
    if not use.window_bytes:
        said = f"{receiver} {do} not open {name}"
    elif not is_unread:
        said = f"{name} {whole} {be} used up"
    elif stall.stream:
        said = f"{receiver} {do} not read stream {holder} (its window {whole} {be} used up)"
    else:
        part = f"{use.held_bytes:,} B of {name} {whole}"
        said = f"{receiver} {do} not read stream {holder} ({part} {are} not given back)"
    waiting = _streams([_named(stall, each) for each in use.waiting], use.more_waiting)
    if not waiting:
        return said
    is_one = len(use.waiting) + use.more_waiting == 1
    verb = "waited" if stall.is_over else "waits" if is_one else "wait"
    return f"{said}; {waiting} {verb}{' for it' if is_unread else ''}"


def _named(stall: FlowControlStall, stream: int) -> str:
    """Return the number of a stream, with its request if that is known."""
    request = stall.requests.get(stream)
    return str(stream) if request is None else f"{stream} {cut_middle(request, _MOST_COLUMNS)}"


def _streams(named: list[str], more: int) -> str:
    """Return such as ``streams 1, 3 and 5``; nothing if there are none."""
    if more:
        named.append(f"{more:,} more")
    if not named:
        return ""
    if len(named) == 1:
        return f"stream {named[0]}"
    return f"streams {', '.join(named[:-1])} and {named[-1]}"
