"""How a connection ended, and an exchange with it: who ended it, how, and how far it had come.

Only what the kernel or the library reported is said. The kernel knows whose FIN or reset came
first. The library knows of alerts: close_notify, which says that all was sent (RFC 8446, section
6.1), and fatal ones. Where a library's object does not say which close_notify passed, or may say it
wrongly, it is unknown: a program may mark one as sent without sending it (SSL_set_quiet_shutdown).
"""

from typing import NamedTuple

from sslsniff.core.handshakes import SocketEnding, alert_name
from sslsniff.core.process import Process
from sslsniff.decoders.messages import Side

_BY_PROCESS = (SocketEnding.CLOSED, SocketEnding.RESET)
BY_PEER = (SocketEnding.PEER_CLOSED, SocketEnding.PEER_RESET, SocketEnding.TIMED_OUT)
"""The ends of TCP connections that the process did not begin."""

_CLOSES = (SocketEnding.CLOSED, SocketEnding.PEER_CLOSED)
_RESETS = (SocketEnding.RESET, SocketEnding.PEER_RESET)


class ConnectionEnding(NamedTuple):
    """How a connection ended, as the watched process sees it.

    ``socket``: how its TCP connection began to end, and ``time_ns`` when. ``sent_notify``,
    ``received_notify``: whether a close_notify passed; None: unknown. ``sent_alert``,
    ``received_alert``: the number of a fatal alert. ``process_ended``: with the connection open.
    """

    socket: SocketEnding = SocketEnding.UNKNOWN
    time_ns: int | None = None
    sent_notify: bool | None = None
    received_notify: bool | None = None
    sent_alert: int | None = None
    received_alert: int | None = None
    process_ended: bool = False

    def ended_by(self, role: Side | None) -> Side | None:
        """Return the side that ended it; ``role``: that of the process."""
        if role is None:
            return None
        if self.received_alert is not None:
            return role.other
        if self.sent_alert is not None or self.socket in _BY_PROCESS:
            return role
        if (
            self.socket in (SocketEnding.PEER_CLOSED, SocketEnding.PEER_RESET)
            or self._only_notify is False
        ):
            return role.other
        return role if self.process_ended or self._only_notify else None

    @property
    def close_notify(self) -> bool | None:
        """Whether the side that closed sent a close_notify before; None: unknown, or not closed."""
        if self.socket is SocketEnding.CLOSED:
            return self.sent_notify
        if self.socket is SocketEnding.PEER_CLOSED:
            return self.received_notify
        return None if self._only_notify is None else True

    @property
    def _only_notify(self) -> bool | None:
        """Whether the process sent the only close_notify; None: none, both, or TCP ended."""
        if self.socket is not SocketEnding.UNKNOWN or self.sent_notify is self.received_notify:
            return None
        return True if self.sent_notify else False if self.received_notify else None

    @property
    def has_alert(self) -> bool:
        """Whether a fatal alert passed."""
        return self.sent_alert is not None or self.received_alert is not None

    @property
    def how(self) -> str | None:
        """How it was ended, in a word that stays the same; None: unknown."""
        if self.has_alert:
            return "alert"
        if self.socket in _RESETS:
            return "rst"
        if self.socket is SocketEnding.TIMED_OUT:
            return "timeout"
        if self.close_notify:
            return "close_notify"
        if self.process_ended and self.socket not in BY_PEER:
            return "process ended"
        return "fin" if self.socket in _CLOSES else None

    def text(self, role: Side | None, peer: str | None = None) -> str | None:
        """Return the same in words; None: unknown.

        ``peer``: the process at the other end, as people know it; None: not known.
        """
        own = f"the {role.value}" if role is not None else "this side"
        other = f"the {role.other.value}" if role is not None else "the other side"
        if peer is not None:
            other += f" ({peer})"
        for number, sender in ((self.received_alert, other), (self.sent_alert, own)):
            if number is not None:
                return f"alert {number} ({alert_name(number)}) sent by {sender}"
        if self.socket is SocketEnding.TIMED_OUT:
            return f"timed out: {other} acknowledged nothing"
        who = own if self.socket in _BY_PROCESS or self._only_notify else other
        ended = ", whose process ended" if self.process_ended and who == own else ""
        if self.socket in _RESETS:
            return f"reset by {who}{ended}"
        if self.socket in _CLOSES or self._only_notify is not None:
            notify = {True: " with close_notify", False: " without close_notify", None: ""}
            return f"closed by {who}{notify[self.close_notify]}{ended}"
        return f"the process of {own} ended" if self.process_ended else None


class ExchangeEnding(NamedTuple):
    """How far an exchange had come when it ended early, and how its connection ended.

    ``part``: whose message was cut short; None: no message had begun to come that is not whole.
    ``received_bytes``: of that message's body. ``announced_bytes``: by its Content-Length; None:
    there is none. ``connection``: None if the connection went on. ``peer_process``: the one at its
    other end; None: it is not watched.
    """

    part: Side | None
    received_bytes: int
    announced_bytes: int | None
    connection: ConnectionEnding | None
    peer_process: Process | None = None
