"""The prepared statements and portals of a session with PostgreSQL.

A client names them before it knows whether the server makes them: Parse, Bind and Close may fail,
or be skipped after an error. So there are those that the server confirmed, and those that were
sent since, which are what later messages mean if all goes well.
"""

import re
from collections.abc import Iterable

from sslsniff.decoders.databases.other_end import FindElsewhere
from sslsniff.decoders.databases.postgresql.wire_format import bound_parameters
from sslsniff.decoders.databases.statement import Prepared, parameters_bytes

_MOST_BYTES = 4 << 20
"""Of prepared statements, of portals, and of those of either that are not confirmed yet."""
_PORTAL_BYTES = 300  # memory of one beside its parameters
_CUT_CHARACTERS = 256
_NAME = r'(?:"((?:[^"]|"")+)"|([^\W\d][\w$]*))'
_DEALLOCATE = re.compile(r"\bDEALLOCATE\s+(?:PREPARE\s+)?" + _NAME, re.IGNORECASE)
_PREPARE = re.compile(r"\s*PREPARE\s+" + _NAME + r"\s*(?:\([^)]*\)\s*)?AS\s+(.*)", re.I | re.DOTALL)


class Portal:
    """A prepared statement with parameters; ``bound`` are their bytes until it is confirmed."""

    __slots__ = ("bound", "parameters", "prepared", "source")

    def __init__(self, source: str, prepared: Prepared | None, bound: bytes) -> None:
        self.source = source
        self.prepared = prepared
        self.bound = bound
        self.parameters = bound_parameters(bound, prepared.kinds if prepared else ())

    @property
    def held_bytes(self) -> int:
        """About how much memory it takes."""
        return _PORTAL_BYTES + parameters_bytes(self.parameters)


class Session:
    """Prepared statements and portals by name; where there are too many, the oldest go."""

    def __init__(self) -> None:
        self._prepared: dict[str, Prepared] = {}
        self._portals: dict[str, Portal] = {}
        self._sent_prepared: dict[str, Prepared] = {}
        self._sent_portals: dict[str, Portal] = {}
        self._prepared_bytes = self._portal_bytes = self._sent_bytes = 0

    @property
    def held_bytes(self) -> int:
        """About how much memory they take."""
        return self._prepared_bytes + self._portal_bytes + self._sent_bytes

    def forget_unsure(self, changed: Iterable[str]) -> None:
        """Forget what lost bytes may have changed, and the statements that were being ``changed``.

        Another statement or portal without a name replaces the one before it. Those that have names
        are replaced by none of the same name.
        """
        self.forget_sent()
        self.close_portals()
        for name in ("", *changed):
            self.close_prepared(name)

    def forget_sent(self) -> None:
        """Forget what is not confirmed: it is not done."""
        self._sent_prepared.clear()
        self._sent_portals.clear()
        self._sent_bytes = 0

    # Prepared statements.

    def send_prepared(self, name: str, prepared: Prepared) -> Prepared:
        """Note a Parse; return the statement, which is cut if too many wait."""
        if self._sent_bytes + prepared.held_bytes > _MOST_BYTES:
            prepared = prepared._replace(text=(prepared.text or "")[:_CUT_CHARACTERS])
        self._sent_prepared[name] = prepared
        self._sent_bytes += prepared.held_bytes
        return prepared

    def drop_prepared(self, name: str, prepared: Prepared) -> None:
        """Note that a statement that was sent waits no more: it is confirmed, or was not made."""
        self._sent_bytes -= prepared.held_bytes
        if self._sent_prepared.get(name) is prepared:
            del self._sent_prepared[name]

    def sole_prepared(self, name: str) -> Prepared | None:
        """Return the statement that the server has under this name, if no other one was sent."""
        return None if name in self._sent_prepared else self._prepared.get(name)

    def store_prepared(self, name: str, prepared: Prepared) -> None:
        """Store a statement that the server has."""
        self.close_prepared(name)
        self._prepared[name] = prepared
        self._prepared_bytes += prepared.held_bytes
        while self._prepared_bytes > _MOST_BYTES:
            self.close_prepared(next(iter(self._prepared)))

    def find_prepared(self, name: str) -> Prepared | None:
        """Return the statement that the server has under this name, as far as is known."""
        return self._prepared.get(name)

    def close_prepared(self, name: str) -> None:
        """Forget a statement."""
        old = self._prepared.pop(name, None)
        if old is not None:
            self._prepared_bytes -= old.held_bytes

    # Portals.

    def send_portal(self, name: str, source: str, bound: bytes) -> Portal:
        """Note a Bind to the statement ``source``; return the portal."""
        prepared = self._sent_prepared.get(source) or self._prepared.get(source)
        portal = Portal(source, prepared, bound)
        if self._sent_bytes + len(bound) > _MOST_BYTES:
            portal.bound = b""
        self._sent_portals[name] = portal
        self._sent_bytes += len(portal.bound)
        return portal

    def drop_portal(self, name: str, portal: Portal) -> None:
        """Note that a portal that was sent waits no more: it is confirmed, or was not made."""
        self._sent_bytes -= len(portal.bound)
        portal.bound = b""
        if self._sent_portals.get(name) is portal:
            del self._sent_portals[name]

    def resolve(self, portal: Portal, learn: FindElsewhere) -> None:
        """Note what a portal is of, now that all before it is answered.

        ``learn`` returns the statement if it was prepared before the capture.
        """
        prepared = self._prepared.get(portal.source)
        if prepared is None or prepared.text is None:
            found = learn(portal.source, portal.bound)
            if found is not None:
                self.store_prepared(portal.source, found)
                prepared = found
        kinds = prepared.kinds if prepared else ()
        if portal.bound and kinds != (portal.prepared.kinds if portal.prepared else ()):
            portal.parameters = bound_parameters(portal.bound, kinds)
        portal.prepared = prepared

    def store_portal(self, name: str, portal: Portal) -> None:
        """Store a portal that the server has."""
        self.close_portal(name)
        if self._portal_bytes > _MOST_BYTES:
            self.close_portals()
        self._portals[name] = portal
        self._portal_bytes += portal.held_bytes

    def find_portal(self, name: str, *, sent: bool = False) -> Portal | None:
        """Return the portal that the server has; if ``sent``, the one that it may have by then."""
        return (self._sent_portals.get(name) if sent else None) or self._portals.get(name)

    def close_portal(self, name: str) -> None:
        """Forget a portal."""
        old = self._portals.pop(name, None)
        if old is not None:
            self._portal_bytes -= old.held_bytes

    def close_portals(self) -> None:
        """Forget all portals."""
        self._portals.clear()
        self._portal_bytes = 0

    # What SQL does.

    def complete(self, tag: str, text: str, number: int) -> str | None:
        """Note that SQL of this text succeeded with a ``tag``, which came ``number`` times before.

        SQL has the names of the protocol: PREPARE, DEALLOCATE, DISCARD ALL. Returns the name of the
        statement that was prepared, if one was.
        """
        if tag in {"DEALLOCATE ALL", "DISCARD ALL"}:
            for name in filter(None, [*self._prepared]):  # SQL knows none without a name
                self.close_prepared(name)
        elif tag == "DEALLOCATE":
            names = [_name(found) for found in _DEALLOCATE.finditer(text)]
            for name in names[number : number + 1]:
                self.close_prepared(name)
        elif tag == "PREPARE" and (found := _PREPARE.match(text)):
            name = _name(found)
            self.store_prepared(name, Prepared(found[3], len(found[3])))
            return name
        return None


def _name(found: "re.Match[str]") -> str:
    return found[1].replace('""', '"') if found[1] else found[2].lower()
