"""Proves which function is ``SSL_write``: it hands its arguments to a method of its object.

``SSL_write(ssl, buffer, size)`` hands all three to ``ssl->method->write_app_data``. It may be
inlined into others: then nothing is proved.
"""

import itertools

from sslsniff.libraries.boringssl.error_reasons import (
    HANDSHAKE_FAILURE,
    SHOULD_NOT_HAVE_BEEN_CALLED,
    UNINITIALIZED,
)
from sslsniff.machine_code.instructions import ARGUMENTS
from sslsniff.machine_code.known_values import MemoryField
from sslsniff.machine_code.stripped.path_walk import Walk
from sslsniff.matching.stripped.evidence import (
    BUFFER,
    NOT_CALLED,
    OBJECT,
    SIZE,
    LineOwners,
    SslFunction,
    hex_list,
    is_callee_result,
    is_one_of,
    odd_results,
    refused,
    shown,
)


def find_write(owners: LineOwners) -> SslFunction:
    """Return ``SSL_write``."""
    name = "SSL_write"
    found = owners.of(name)
    if len(found) != 1:
        return refused(name, f"its lines are in {len(found)} functions ({hex_list(found)})")
    [address] = found
    proofs = ["all of its lines are in this function, and in no other"]
    against = []
    reasons = {reason for _, reason in owners.lines(name, address)}
    missing = {SHOULD_NOT_HAVE_BEEN_CALLED, UNINITIALIZED, HANDSHAKE_FAILURE} - reasons
    if missing:
        against.append(f"it does not raise {', '.join(map(str, sorted(missing)))}")
    others = owners.other_names(address, name, "SSL_do_handshake")
    if others:
        against.append(f"it has lines of {', '.join(others)}, too")
    handed = _handed_to_method(owners.code.walk(address))
    if handed:
        proofs.append(handed)
    else:
        against.append("no call through its object gets its object, buffer and size")
    odd = odd_results(owners.code, address, is_callee_result)
    if odd:
        against.append(odd)
    else:
        proofs.append("it returns -1, 0, what a callee returned or what a callee stored")
    if not owners.code.is_called(address):
        against.append(NOT_CALLED)
    return owners.ssl_function(name, address, proofs, against)


def _handed_to_method(walk: Walk) -> str | None:
    """Return how a function hands its object, buffer and size to a method of its object."""
    for call in walk.calls:
        to = call.through
        if not isinstance(to, MemoryField) or not isinstance(to.base, MemoryField):
            continue
        values = dict(call.arguments)
        for buffer, size in itertools.pairwise(ARGUMENTS):
            if (
                to.base.base == OBJECT
                and values.get("rdi") == OBJECT
                and values.get(buffer) == BUFFER
                and is_one_of(values.get(size), SIZE)
            ):
                return (
                    f"it hands its object, buffer ({buffer}) and size ({size}) to"
                    f" {shown(to)} at {call.address:#x}"
                )
    return None
