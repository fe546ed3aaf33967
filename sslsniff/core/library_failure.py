"""The type of what a TLS library's own error says of a handshake that it gave up."""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # workers that plan probes import this module, and no decoder
    from sslsniff.decoders.messages import Side


class LibraryFailure(NamedTuple):
    """What a library's error says.

    ``kind``: a kind of ``core.handshakes``, None if the error does not say more than the alert.
    ``text``: the error in the library's words, None if it says nothing more. ``received_alert``:
    the number of the alert that the error stands for. ``sent_alert``: that of the one that the
    library sends for it, if it always does. ``role``: of the side that alone gets this error.
    """

    kind: str | None = None
    text: str | None = None
    received_alert: int | None = None
    role: "Side | None" = None
    sent_alert: int | None = None


def received(alert: int, _verified: int | None) -> LibraryFailure:
    """Return what the number of an alert says that the library received; 0: it received none."""
    return LibraryFailure(received_alert=alert or None)
