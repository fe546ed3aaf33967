"""Packet comments in our captures: a sentence for people, then a line of JSON.

The JSON begins with ``{"sslsniff": 1``. With it ``replay`` restores processes, roles and losses. A
comment describes a connection (on its first packet), or says that bytes were lost, that secrets
were blanked, that bytes or an end are made up, how a connection ended, or that it continues in
another synthetic one.
"""

import functools
import json
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from sslsniff.core.endings import ConnectionEnding
from sslsniff.core.errors import counted
from sslsniff.core.handshakes import SocketEnding
from sslsniff.core.losses import LossCause
from sslsniff.core.model import Connection, Direction, Peer
from sslsniff.core.process import Container, Process
from sslsniff.core.redacted import (
    MOST_SECRETS,
    NO_MESSAGE,
    OTHERS,
    MessageKey,
    PlacedCounts,
    RedactedSecret,
    add,
)
from sslsniff.decoders.messages import Side

_KEPT_COMMENTS = 64  # most connections end alike
_MARK = '{"sslsniff": 1'


@dataclass(frozen=True, slots=True)
class Lost:
    """A gap in one direction; the comment of each packet that stands for a piece of it."""

    missing: int
    """Length of the whole gap in bytes."""
    offset: int
    """Where in the gap the packet begins, in bytes."""
    cause: LossCause
    direction: Direction

    def text(self) -> str:
        """Return the comment for a packet with zeros in place of the bytes."""
        return _text(
            f"{self.missing} bytes were not captured ({self.cause.value}): zeros stand for them",
            {"lost": self.as_json()},
        )

    def as_json(self) -> dict[str, Any]:
        """Return what ``parse`` reads back."""
        return {
            "missing": self.missing,
            "offset": self.offset,
            "cause": self.cause.value,
            "direction": self.direction.value,
        }


@dataclass(frozen=True, slots=True)
class Described:
    """What the comment of a synthetic connection's first packet says."""

    connection: str
    part: int
    """Number of this synthetic connection among those of the real one, from 1."""
    pid: int
    comm: str
    uid: int | None
    library: str
    role: Side | None
    """Side of the process; None if the TLS library did not report it."""
    plays: Side
    """Side of the process in the packets; assumed where ``role`` is None."""
    from_start: bool
    addresses_known: bool
    wrapped: bool
    """Whether the file has the plaintext in TLS records."""
    read: int
    """Bytes that the process had read before this part."""
    written: int
    """Bytes that the process had written before this part."""
    sni: str | None = None
    alpn: str | None = None
    tls_version: str | None = None
    cipher: str | None = None
    client_port: int | None = None
    """Real port of the client, if the packets have another."""
    tls: bool = True
    """Whether the connection had TLS on the wire."""
    container: Container | None = None
    container_pid: int | None = None
    peer: Peer | None = None
    lost: Lost | None = None
    """Gap before this part, in a comment that was parsed."""

    @classmethod
    def of(
        cls,
        connection: Connection,
        *,
        part: int,
        plays: Side,
        wrapped: bool,
        positions: tuple[int, int],
        from_start: bool,
        client_port: int | None = None,
    ) -> Self:
        """Return the description of a part of ``connection``.

        ``positions``: the bytes read and written before it. ``from_start``: whether the file has
        the connection's beginning.
        """
        process = connection.process
        return cls(
            connection=connection.id,
            part=part,
            pid=process.pid,
            comm=process.comm,
            uid=process.uid,
            library=connection.library,
            role=None if connection.role_is_inferred else connection.role,
            plays=plays,
            from_start=from_start,
            addresses_known=connection.local is not None and connection.remote is not None,
            wrapped=wrapped,
            read=positions[0],
            written=positions[1],
            sni=connection.sni,
            alpn=connection.alpn,
            tls_version=connection.tls_version,
            cipher=connection.cipher,
            client_port=client_port,
            tls=connection.tls,
            container=process.container,
            container_pid=process.container_pid,
            peer=connection.peer,
        )

    def text(self, lost: Lost | None = None) -> str:
        """Return the comment; ``lost`` is the gap between the previous part and this one."""
        facts = [
            str(Process(self.pid, self.comm, self.uid, self.container, self.container_pid)),
            f"connection {self.connection}",
            f"{self.role.value if self.role else f'perhaps {self.plays.value}'} by {self.library}",
            *(fact for fact in (self.tls_version, self.cipher, self.sni, self.alpn) if fact),
        ]
        if self.peer is not None:
            facts.append(f"with {self.peer.label}[{self.peer.pid}]")
        if not self.tls:
            facts.append("without TLS on the wire")
        if not self.from_start:
            facts.append("joined in the middle")
        if not self.addresses_known:
            facts.append("its addresses are not known, those here are placeholders (RFC 5737)")
        if self.client_port is not None:
            facts.append(
                f"its client's port is {self.client_port}: another one stands here, as this capture"
                " has another view of what passed between the two"
            )
        if self.part > 1:
            facts.append(f"part {self.part}, goes on where the part before it ended")
        values: dict[str, Any] = {
            name: getattr(self, name) for name in self.__slots__ if name != "lost"
        }
        values["role"] = self.role.value if self.role else None
        values["plays"] = self.plays.value
        values["container"] = self.container and self.container._asdict()
        values["peer"] = self.peer and self.peer._asdict()
        if lost is not None:
            facts.append(f"{lost.missing} bytes before it were not captured ({lost.cause.value})")
            values["lost"] = lost.as_json()
        return _text(", ".join(facts), values)


@dataclass(frozen=True, slots=True)
class Blanked:
    """The secrets that began in a packet and were blanked, as ``Chunk.redacted`` has them.

    Where a message of HTTP/1 begins counts from the first byte of the packet.
    """

    secrets: PlacedCounts

    @classmethod
    def of(cls, secrets: PlacedCounts, offset: int) -> Self:
        """Return the note for a packet at ``offset`` of its direction."""
        return cls({_moved(message, -offset): counts for message, counts in secrets.items()})

    def at(self, offset: int) -> PlacedCounts:
        """Return the secrets of a packet at ``offset`` of its direction."""
        return {_moved(message, offset): counts for message, counts in self.secrets.items()}

    def text(self) -> str:
        """Return the comment."""
        placed = self.secrets.items()
        each = [(message, *found) for message, counts in placed for found in counts.items()]
        return _blanked_text(tuple(each))


_Placed = tuple[MessageKey, RedactedSecret, int]


def _moved(message: MessageKey, by: int) -> MessageKey:
    stream, begins = message
    return message if begins is None else (stream, begins + by)


@functools.lru_cache(maxsize=256)
def _blanked_text(secrets: tuple[_Placed, ...]) -> str:
    """Return the comment of a packet; most are written again and again.

    Beyond ``MOST_SECRETS``, which fit into a comment, they are counted together.
    """
    shown = {(message, secret): count for message, secret, count in secrets[:MOST_SECRETS]}
    for _, secret, count in secrets[MOST_SECRETS:]:
        key = NO_MESSAGE, RedactedSecret(secret.where, OTHERS)
        shown[key] = shown.get(key, 0) + count
    labels = {f"{secret.label} ({secret.where})": None for _, secret in shown}
    values = [
        {"stream": stream, "begins": begins, **secret._asdict(), "count": count}
        for ((stream, begins), secret), count in shown.items()
    ]
    total = counted(sum(shown.values()), "secret")
    return _text(f"{total} blanked by sslsniff: {', '.join(labels)}", {"redacted": values})


MADE_UP = (
    "made up by sslsniff, so that HTTP/2 without its beginning is recognised\n"
    + _MARK
    + ', "made_up": true}'
)
"""The comment of a packet whose bytes were never on the real connection."""

GOES_ON = (
    "the connection goes on in the next one between these addresses\n"
    + _MARK
    + ', "goes_on": true}'
)
"""The comment of a FIN that does not end the real connection."""


@functools.lru_cache(_KEPT_COMMENTS)
def ending_comment(ending: ConnectionEnding, role: Side | None) -> str:
    """Return the comment of an alert, or of the packet with which a connection, or a side, ends.

    ``role``: the side of the process. If nothing is known of the TCP connection's end, the packet
    is made up, and the comment says so.
    """
    facts = []
    if ending.socket not in _SHOWN_ENDINGS and ending.close_notify is None and not ending.has_alert:
        facts.append("made up by sslsniff: it is not known whether this side ended so")
    if text := ending.text(role):
        facts.append(text)
    unknown = ConnectionEnding()
    values = {
        name: value.name.lower() if isinstance(value, SocketEnding) else value
        for name, value in ending._asdict().items()
        if value != getattr(unknown, name)
    }
    return _text(", ".join(facts), {"ending": values})


_SHOWN_ENDINGS = (
    SocketEnding.CLOSED,
    SocketEnding.PEER_CLOSED,
    SocketEnding.RESET,
    SocketEnding.PEER_RESET,
)
"""Those that packets of the file show."""

LEFT_OUT = (
    "what came on the connection before its next packets was left out (--around)\n"
    + _MARK
    + ', "left_out": true}'
)
"""The comment of a FIN before what is shown as another connection."""


def left_out_comment(count: int) -> str:
    """Return the comment of a packet before whose bytes ``count`` others are not in the file."""
    sentence = f"{count:,} bytes before these were left out (--around): they are not lost"
    return _text(sentence, {"left_out_bytes": count})


Note = Described | Lost | Blanked | ConnectionEnding | str
"""A parsed comment: an object, or ``MADE_UP`` or ``GOES_ON``."""

_Kind = TypeVar("_Kind")


def _text(sentence: str, values: dict[str, Any]) -> str:
    return f"{sentence}\n{json.dumps({'sslsniff': 1} | values)}"


def parse(comments: tuple[str, ...]) -> Note | None:
    """Return the first comment that sslsniff wrote, parsed.

    None if there is none, or if it does not have the form that sslsniff writes.
    """
    for comment in comments:
        line = comment.rpartition("\n")[2]
        if not line.startswith(_MARK):
            continue
        if comment in (MADE_UP, GOES_ON):
            return comment
        try:
            values = json.loads(line)
            if "connection" in values:
                return _described(values)
            if "ending" in values:
                return _ending(values["ending"])
            if "redacted" in values:
                return _blanked(values["redacted"])
            return _lost(values["lost"])
        except (ValueError, KeyError, TypeError, RecursionError):
            return None
    return None


def _described(values: dict[str, Any]) -> Described:
    container = _optional(values, "container", dict)
    peer = _optional(values, "peer", dict)
    return Described(
        connection=_checked(values["connection"], str),
        part=_checked(values["part"], int),
        pid=_checked(values["pid"], int) & 0xFFFFFFFF,
        comm=_checked(values["comm"], str),
        uid=_optional(values, "uid", int),
        library=_checked(values["library"], str),
        role=Side(values["role"]) if values["role"] else None,
        plays=Side(values["plays"]),
        from_start=_checked(values["from_start"], bool),
        addresses_known=_checked(values["addresses_known"], bool),
        wrapped=_checked(values["wrapped"], bool),
        read=_position(values["read"]),
        written=_position(values["written"]),
        sni=_optional(values, "sni", str),
        alpn=_optional(values, "alpn", str),
        tls_version=_optional(values, "tls_version", str),
        cipher=_optional(values, "cipher", str),
        client_port=_optional(values, "client_port", int),
        tls=_checked(values.get("tls", True), bool),
        container=_container(container) if container is not None else None,
        container_pid=_optional(values, "container_pid", int),
        peer=_peer(peer) if peer is not None else None,
        lost=_lost(values["lost"]) if "lost" in values else None,
    )


def _container(values: dict[str, Any]) -> Container:
    return Container(*(_optional(values, name, str) for name in Container._fields))


def _peer(values: dict[str, Any]) -> Peer:
    words = _checked(values["command"], list)
    return Peer(
        _checked(values["pid"], int) & 0xFFFFFFFF,
        _checked(values["comm"], str),
        tuple(_checked(word, str) for word in words),
    )


def _lost(values: dict[str, Any]) -> Lost:
    return Lost(
        _position(values["missing"]),
        _position(values["offset"]),
        LossCause(values["cause"]),
        Direction(values["direction"]),
    )


def _ending(values: dict[str, Any]) -> ConnectionEnding:
    return ConnectionEnding(
        socket=SocketEnding[_checked(values.get("socket", "unknown"), str).upper()],
        time_ns=_optional(values, "time_ns", int),
        sent_notify=_optional(values, "sent_notify", bool),
        received_notify=_optional(values, "received_notify", bool),
        sent_alert=_optional(values, "sent_alert", int),
        received_alert=_optional(values, "received_alert", int),
        process_ended=_checked(values.get("process_ended", False), bool),
    )


def _blanked(values: list[dict[str, Any]]) -> Blanked:
    secrets: PlacedCounts = {}
    for each in _checked(values, list):
        message = _position(each["stream"]), _optional(each, "begins", int)
        secret = RedactedSecret(
            _checked(each["where"], str),
            _checked(each["name"], str),
            _optional(each, "pattern", str),
            _optional(each, "fingerprint", str),
        )
        add(secrets.setdefault(message, {}), secret, _position(each["count"]))
    return Blanked(secrets)


def _checked(value: object, kind: type[_Kind]) -> _Kind:
    if not isinstance(value, kind):
        raise TypeError
    return value


def _optional(values: dict[str, Any], name: str, kind: type[_Kind]) -> _Kind | None:
    value = values.get(name)
    return None if value is None else _checked(value, kind)


def _position(value: object) -> int:
    position = _checked(value, int)
    if not 0 <= position < 1 << 63:
        raise ValueError
    return position
