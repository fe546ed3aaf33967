"""Proves which functions are ``SSL_write`` and ``SSL_read``: by what they do with their arguments.

``SSL_write(ssl, buffer, size)`` hands all three to ``ssl->method->write_app_data``. ``SSL_peek``
copies from ``ssl->s3->pending_app_data`` to its buffer; ``SSL_read`` does the same and takes away
what was copied. Either may be inlined into others: then nothing is proved.
"""

import itertools
from typing import NamedTuple

from sslsniff.machine_code.instructions import ARGUMENTS
from sslsniff.machine_code.known_values import MemoryField, Number, Value
from sslsniff.machine_code.stripped.path_walk import Walk
from sslsniff.probing.boringssl.error_reasons import (
    HANDSHAKE_FAILURE,
    SHOULD_NOT_HAVE_BEEN_CALLED,
    UNINITIALIZED,
)
from sslsniff.probing.boringssl.evidence import (
    BUFFER,
    OBJECT,
    SIZE,
    LineOwners,
    SslFunction,
    hex_list,
    is_callee_result,
    is_one_of,
    odd_results,
    shown,
)

_WORD_BYTES = 8
_MINUS_ONE = (-1, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF)
_CALLERS_OF_PEEK = frozenset({"SSL_read", "SSL_read_ex", "SSL_peek_ex"})
"""Functions that SSL_peek may be inlined in."""

_NOT_CALLED = "nothing calls it"


def find_write(owners: LineOwners) -> SslFunction:
    """Return ``SSL_write``."""
    name = "SSL_write"
    found = owners.of(name)
    if len(found) != 1:
        return _refused(name, f"its lines are in {len(found)} functions ({hex_list(found)})")
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
        against.append(_NOT_CALLED)
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


class _Copy(NamedTuple):
    """A call at ``place`` that copies from ``state`` + ``offset`` to the function's buffer.

    ``sizes``: how many bytes, on all paths.
    """

    place: int
    state: MemoryField
    offset: int
    sizes: frozenset[Value]

    def __str__(self) -> str:
        return f"[{shown(self.state)}+{self.offset:#x}]"


def find_reads(owners: LineOwners) -> list[SslFunction]:
    """Return ``ssl_read_impl``, ``SSL_peek`` and ``SSL_read``, as far as they are found."""
    findings = []
    peeks = owners.of("SSL_peek")
    needed = {UNINITIALIZED, HANDSHAKE_FAILURE}
    inner = [
        each
        for each in owners.with_reasons("ssl_read_impl", needed)
        if each not in peeks | owners.of("SSL_shutdown")
    ]
    if len(inner) == 1:
        proof = "it alone raises both errors of its lines, without others around it"
        findings.append(owners.ssl_function("ssl_read_impl", inner[0], [proof], []))
    copies = {each: copy for each in peeks if (copy := _copy(owners.code.walk(each)))}
    taken = {
        each: stores for each, copy in copies.items() if (stores := _taken(owners, each, copy))
    }
    only_peeks = sorted(copies.keys() - taken.keys())
    other_lines = sorted(peeks - copies.keys())
    against = (
        [f"the line of SSL_peek is also in {hex_list(other_lines)}, which does not copy like it"]
        if other_lines
        else []
    )
    if len(only_peeks) == 1:
        findings.append(_peek(owners, only_peeks[0], copies[only_peeks[0]], against))
    if taken:
        findings.append(_inlined_read(owners, copies, taken, peeks))
    elif len(only_peeks) == 1:
        findings.append(_calling_read(owners, only_peeks[0], copies[only_peeks[0]], against))
    else:
        findings.append(
            _refused(
                "SSL_read",
                f"the line of SSL_peek is in {len(peeks)} functions ({hex_list(peeks)}), and"
                f" {len(only_peeks)} of them copy received data to their buffer",
            )
        )
    return findings


def _peek(owners: LineOwners, address: int, copy: _Copy, against: list[str]) -> SslFunction:
    proofs = [
        f"it copies {copy} to its own buffer at {copy.place:#x}",
        "it stores nothing there",
    ]
    odd = _odd_sizes(owners, address, copy)  # SSL_peek_ex returns 1
    if odd:
        against = [*against, odd]
    others = {*owners.other_names(address, "SSL_peek")} & _CALLERS_OF_PEEK
    if others:
        against = [*against, f"it has lines of {', '.join(sorted(others))}, too"]
    return owners.ssl_function("SSL_peek", address, proofs, against)


def _odd_sizes(owners: LineOwners, address: int, copy: _Copy) -> str:
    """Return what a function returns other than -1, 0, a callee's result or a size; "": nothing."""
    available = MemoryField(copy.state, copy.offset + _WORD_BYTES)
    sizes = (SIZE, available, *copy.sizes)

    def is_good(value: Value | None) -> bool:
        return is_callee_result(value) or any(is_one_of(value, each) for each in sizes)

    return odd_results(owners.code, address, is_good)


def _inlined_read(
    owners: LineOwners, copies: dict[int, _Copy], taken: dict[int, str], peeks: set[int]
) -> SslFunction:
    """Return ``SSL_read`` with ``SSL_peek`` inlined."""
    name = "SSL_read"
    if len(taken) != 1:
        return _refused(name, f"{len(taken)} functions take received data ({hex_list([*taken])})")
    [(address, stores)] = taken.items()
    copy = copies[address]
    proofs = [
        "it has the line of SSL_peek",
        f"it copies {copy} to its own buffer at {copy.place:#x}",
        f"it takes away what was copied: {stores}",
    ]
    against = []
    odd = _odd_sizes(owners, address, copy)
    if odd:
        against.append(odd)
    else:
        proofs.append("it returns -1, 0, what a callee returned, its size or the copied size")
    # AWS-LC has SSL_peek_ex, too, which calls SSL_peek and has a line of its own.
    other_peeks = peeks - {address} - owners.of("SSL_peek_ex")
    if len(other_peeks) > 1 or not peeks <= copies.keys():
        against.append(f"the line of SSL_peek is also in {hex_list(other_peeks)}")
    others = owners.other_names(address, "SSL_peek", name, "ssl_read_impl", "SSL_do_handshake")
    inlined = {"ssl_do_post_handshake", "SSL_process_quic_post_handshake"}
    if {*others} - inlined:
        against.append(f"it has lines of {', '.join(others)}, too")
    if not owners.code.is_called(address):
        against.append(_NOT_CALLED)
    return owners.ssl_function(name, address, proofs, against)


def _calling_read(owners: LineOwners, peek: int, copy: _Copy, doubts: list[str]) -> SslFunction:
    """Return ``SSL_read`` that calls ``SSL_peek``; ``doubts``: what is against the latter."""
    name = "SSL_read"
    callers = owners.code.callers(peek)
    good = {
        each: (place, stores)
        for each in callers
        if each != peek
        and (place := _hands_all_to(owners.code.walk(each), peek))
        and (stores := _taken(owners, each, copy))
    }
    if len(good) != 1:
        return _refused(
            name,
            f"of {len(callers)} functions that call SSL_peek ({peek:#x}), {len(good)} hand all"
            f" arguments on and take away what it copied ({hex_list([*good])})",
        )
    [(address, (place, stores))] = good.items()
    proofs = [
        f"it hands its object, buffer and size to SSL_peek at {place:#x}",
        f"it takes away what that copied: {stores}",
    ]
    against = [*doubts]

    def is_good(value: Value | None) -> bool:
        is_result = is_callee_result(value)
        return is_result and not (isinstance(value, Number) and value.value not in (0, *_MINUS_ONE))

    odd = odd_results(owners.code, address, is_good)
    if odd:
        against.append(odd)
    else:
        proofs.append("it returns what SSL_peek returned, 0 or -1")
    others = owners.other_names(address, "SSL_peek", name)
    if others:
        against.append(f"it has lines of {', '.join(others)}, too")
    if not owners.code.is_called(address):
        against.append(_NOT_CALLED)
    return owners.ssl_function(name, address, proofs, against)


def _copy(walk: Walk) -> _Copy | None:
    """Return what copies from the object's state to the buffer; None: nothing does."""
    found: dict[tuple[int, MemoryField, int], set[Value]] = {}
    for call in (*walk.calls, *walk.copies):
        values = dict(call.arguments)
        source = values.get("rsi")
        if (
            values.get("rdi") == BUFFER
            and isinstance(source, MemoryField)
            and isinstance(source.base, MemoryField)
            and source.base.base == OBJECT
        ):
            sizes = found.setdefault((call.address, source.base, source.offset), set())
            sizes.update({values["rdx"]} if "rdx" in values else ())
    if len({(state, offset) for _, state, offset in found}) != 1:
        return None
    (place, state, offset), _ = next(iter(found.items()))
    return _Copy(place, state, offset, frozenset[Value]().union(*found.values()))


def _taken(owners: LineOwners, address: int, copy: _Copy) -> str:
    """Return the stores of a function to the pointer or the size of what is copied; "": none."""
    places = (copy.offset, copy.offset + _WORD_BYTES)
    stores = {
        (each.address, each.offset, each.size)
        for each in owners.code.walk(address).stores
        if each.base == copy.state
        and each.offset in places
        and each.size in (_WORD_BYTES, 2 * _WORD_BYTES)
    }
    return ", ".join(
        f"{size} bytes to [{shown(copy.state)}+{offset:#x}] at {at:#x}"
        for at, offset, size in sorted(stores)
    )


def _hands_all_to(walk: Walk, target: int) -> int | None:
    """Return where a function calls ``target`` with its own object, buffer and size, always."""
    calls = [each for each in walk.calls if each.target == target]
    is_handed = all(
        each.argument("rdi") == OBJECT
        and each.argument("rsi") == BUFFER
        and is_one_of(each.argument("rdx"), SIZE)
        for each in calls
    )
    return calls[0].address if calls and is_handed else None


def _refused(name: str, reason: str) -> SslFunction:
    return SslFunction(name, None, against=(reason,))
