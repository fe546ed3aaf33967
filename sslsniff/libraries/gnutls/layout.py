"""Offsets in GnuTLS's session object, read from the code of public functions.

Only a client may send early data, only a server receive it: both functions look at the session's
role first. The protocol is in a structure that the session points to. While early data is sent it
is not the negotiated one yet: sends and receives look at whether a handshake was completed. The
server's name and the application protocol are far from the session, behind calls.
"""

from sslsniff.elf.elf_file import Elf
from sslsniff.matching.accessors import chain_of, field_of, follow_accessor, only, single
from sslsniff.matching.key_log.client_random import random_in_object
from sslsniff.matching.object_layout import ObjectLayout

_SERVER, _CLIENT = 1, 2
"""GNUTLS_SERVER and GNUTLS_CLIENT (gnutls/gnutls.h)."""

_OF_ROLE = {"gnutls_record_recv_early_data": _SERVER, "gnutls_record_send_early_data": _CLIENT}
_OF_HANDSHAKE = {"gnutls_record_recv": 0, "gnutls_record_send2": 0}
"""Functions, each with the number that it compares the field with."""


def read_gnutls_layout(elf: Elf) -> ObjectLayout:
    """Return the layout of session objects of the library in ``elf``."""
    role = _compared(elf, _OF_ROLE)
    settled = _compared(elf, _OF_HANDSHAKE)
    version = field_of(follow_accessor(elf, "gnutls_protocol_get_version").results)
    is_known = version is not None and len(version) == 2 and settled is not None
    alert = follow_accessor(elf, "gnutls_alert_get")
    verified = follow_accessor(elf, "gnutls_session_get_verify_cert_status")
    random = random_in_object(elf, stored_by="gnutls_session_get_random")
    base, inner = version if version and is_known else (None, None)
    return ObjectLayout(
        server=role,
        server_value=None if role is None else _SERVER,
        version_base=base,
        version=inner,
        settled=settled,
        verified=single(field_of(verified.results)),
        random_base=random[0] if len(random) == 2 else None,
        random=random[-1] if random else None,
        alert=single(field_of(alert.results)),
    )


def _compared(elf: Elf, numbers: dict[str, int]) -> int | None:
    """Return the offset of the one field that each function compares with its number."""
    fields = []
    for name, number in numbers.items():
        compared = follow_accessor(elf, name).compared
        fields.append({chain_of(value) for value, other in compared if other == number})
    return single(only([each for each in set.intersection(*fields) if each and len(each) == 1]))
