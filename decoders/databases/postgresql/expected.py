"""The messages of a PostgreSQL client that the server has not answered yet."""

from typing import NamedTuple

from sslsniff.decoders.databases.database_decoder import OpenStatement
from sslsniff.decoders.databases.postgresql.session import Portal
from sslsniff.decoders.databases.statement import Prepared, Statement, first_word


class Expected(NamedTuple):
    """A message of the client that the server answers: its kind, and what belongs to it.

    ``copied`` stands for data of a COPY, which is answered by nothing.
    """

    kind: str
    opened: OpenStatement | None = None
    name: str = ""
    prepared: Prepared | None = None
    portal: Portal | None = None


def describe(statement: Statement, portal: Portal | None, prepared: Prepared | None = None) -> None:
    """Say what a statement executes: a portal, or else what is ``prepared``, as far as is known."""
    prepared = portal.prepared if portal is not None else prepared
    statement.text = prepared.text if prepared is not None else None
    statement.size = prepared.size if prepared is not None else 0
    statement.operation = first_word(statement.text) if statement.text else None
    statement.parameters = portal.parameters if portal is not None else None
    statement.prepared = portal.source if portal is not None else None


def belongs_to(executed: Expected, failed: Expected) -> bool:
    """Return whether a message that failed belongs to what an Execute would have executed."""
    portal = executed.portal
    if failed.kind == "execute":
        return executed is failed
    if failed.kind == "describe portal":
        return executed.name == failed.name
    if portal is None:
        return False
    if failed.kind == "describe":
        return portal.source == failed.name
    return portal is failed.portal or (
        failed.prepared is not None and portal.prepared is failed.prepared
    )
