"""Packet comments in our captures: a sentence for people, then a line of JSON.

The JSON begins with ``{"sslsniff": 1`` and lets a capture be read back as it was taken. Four
kinds: what a connection is (on its first packet), that bytes were lost, that bytes are made
up, and that a connection goes on in another synthetic one.
"""

import json
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from sslsniff.decoders.messages import Side
from sslsniff.model import Connection, Direction, LossCause, Process

_MARK = '{"sslsniff": 1'


@dataclass(frozen=True, slots=True)
class Lost:
    """So many bytes of a direction were lost; this packet is ``offset`` bytes into them."""

    missing: int
    offset: int
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
    """What the comment of a synthetic connection's first packet says.

    ``part`` counts from 1 the synthetic connections that one real one became; ``read`` and
    ``written`` are the positions at which this one begins. ``plays`` is the side that the
    process plays in the packets, assumed where ``role`` is not known; ``wrapped`` says that
    the plaintext is in TLS records, ``tls`` that it did on the wire. ``client_port`` is the
    client's real port where the packets have another.
    """

    connection: str
    part: int
    pid: int
    comm: str
    uid: int | None
    library: str
    role: Side | None
    plays: Side
    from_start: bool
    addresses_known: bool
    wrapped: bool
    read: int
    written: int
    sni: str | None = None
    alpn: str | None = None
    tls_version: str | None = None
    cipher: str | None = None
    client_port: int | None = None
    tls: bool = True
    lost: Lost | None = None

    @classmethod
    def of(
        cls,
        connection: Connection,
        *,
        part: int,
        plays: Side,
        wrapped: bool,
        positions: tuple[int, int],
        client_port: int | None = None,
    ) -> Self:
        """Return the description of ``connection``'s ``part``, read and written so far."""
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
            from_start=connection.from_start,
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
        )

    def text(self, lost: Lost | None = None) -> str:
        """Return the comment; ``lost`` is what went missing between the last part and this."""
        facts = [
            str(Process(self.pid, self.comm)),
            f"connection {self.connection}",
            f"{self.role.value if self.role else f'perhaps {self.plays.value}'} by {self.library}",
            *(fact for fact in (self.tls_version, self.cipher, self.sni, self.alpn) if fact),
        ]
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
        if lost is not None:
            facts.append(f"{lost.missing} bytes before it were not captured ({lost.cause.value})")
            values["lost"] = lost.as_json()
        return _text(", ".join(facts), values)


MADE_UP = (
    "made up by sslsniff, so that HTTP/2 without its beginning is recognised\n"
    + _MARK
    + ', "made_up": true}'
)
"""The comment of a packet whose bytes never passed."""

GOES_ON = (
    "the connection goes on in the next one between these addresses\n"
    + _MARK
    + ', "goes_on": true}'
)
"""The comment of a closing packet at which the real connection did not end."""

Note = Described | Lost | str

_Kind = TypeVar("_Kind")


def _text(sentence: str, values: dict[str, Any]) -> str:
    return f"{sentence}\n{json.dumps({'sslsniff': 1} | values)}"


def parse(comments: tuple[str, ...]) -> Note | None:
    """Return what the first comment of ours tells: one of the constants here, or an object.

    None where there is none, or one that is not as we write it.
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
            return _lost(values["lost"])
        except (ValueError, KeyError, TypeError, RecursionError):
            return None
    return None


def _described(values: dict[str, Any]) -> Described:
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
        lost=_lost(values["lost"]) if "lost" in values else None,
    )


def _lost(values: dict[str, Any]) -> Lost:
    return Lost(
        _position(values["missing"]),
        _position(values["offset"]),
        LossCause(values["cause"]),
        Direction(values["direction"]),
    )


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
