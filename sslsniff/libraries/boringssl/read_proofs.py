"""Proves which function is ``SSL_read``: it takes received data away.

``SSL_peek`` copies from ``ssl->s3->pending_app_data`` to its buffer. ``SSL_read`` calls it, or has
it inlined, and takes away what was copied. AWS-LC has ``SSL_read_ex`` and ``SSL_peek_ex``, too,
which store the count where their fourth argument points to: the former is of interest if
``SSL_read`` is inlined in it. Where other functions take data, nothing is proved.
"""

from collections.abc import Collection
from typing import NamedTuple

from sslsniff.libraries.boringssl.error_reasons import HANDSHAKE_FAILURE, UNINITIALIZED
from sslsniff.machine_code.known_values import Argument, MemoryField, Number, Value
from sslsniff.machine_code.stripped.path_walk import Walk
from sslsniff.matching.stripped.error_calls import number_of
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

_READ, _READ_EX, _PEEK, _WRITE = "SSL_read", "SSL_read_ex", "SSL_peek", "SSL_write"
_COUNT_PLACE = Argument("rcx")
_WORD_BYTES = 8
_MINUS_ONE = (-1, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF)
_CALLERS_OF_PEEK = frozenset({_READ, _READ_EX, "SSL_peek_ex"})
"""Functions that SSL_peek may be inlined in."""
_INLINED_IN_READ = frozenset(
    {
        "SSL_do_handshake",
        "SSL_process_quic_post_handshake",
        "ssl_do_post_handshake",
        "ssl_read_impl",
    }
)


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


class _Taker(NamedTuple):
    """A function that takes received data away.

    ``stores``: those that do, in words. ``copy``: what it copies, or ``SSL_peek`` copies for it.
    ``call``: where it calls ``SSL_peek``; None: it copies itself.
    """

    copy: _Copy
    stores: str
    call: int | None


class Reads(NamedTuple):
    """``ssl_read_impl``, ``SSL_peek``, ``SSL_read`` and an ``SSL_read_ex`` that takes data.

    ``functions``: each as far as it is found.
    ``state``: the offset of ``ssl->s3``, where the received data is; None: nothing takes it.
    """

    functions: list[SslFunction]
    state: int | None


def find_reads(owners: LineOwners) -> Reads:
    """Return the functions that give received data."""
    findings = _inner(owners)
    peeks = owners.of(_PEEK)
    walks = {each: owners.code.walk(each) for each in sorted(peeks)}
    copies = {each: copy for each, walk in walks.items() if (copy := _copy(walk))}
    takers = {
        each: _Taker(copy, stores, None)
        for each, copy in copies.items()
        if (stores := _taken(walks[each], copy))
    }
    only_peeks = [
        each
        for each, walk in walks.items()
        if each in copies.keys() - takers.keys()
        and not _counts(walk)
        and not _uses_others(owners, walk, takers.keys())
    ]
    doubts = []
    if peeks - copies.keys():
        lost = hex_list(peeks - copies.keys())
        doubts.append(f"the line of SSL_peek is also in {lost}, which does not copy like it")
    if len(only_peeks) == 1:
        [peek] = only_peeks
        takers |= _takers_that_call(owners, peek, copies[peek])
        alone = [] if takers else ["nothing takes what it copies, as SSL_read does"]
        findings.append(_peek(owners, peek, copies[peek], [*doubts, *alone]))
    elif only_peeks:
        doubts.append(f"the line of SSL_peek is also in {hex_list(only_peeks)}")
    if takers:
        state = next(iter(takers.values())).copy.state.offset
        return Reads([*findings, *_readers(owners, takers, doubts)], state)
    callers = f", and none of those that call {only_peeks[0]:#x} does" if only_peeks else ""
    reason = (
        f"the line of SSL_peek is in {len(peeks)} functions ({hex_list(peeks)}), and none of them"
        f" takes away what it copies{callers}"
    )
    return Reads([*findings, refused(_READ, reason)], None)


def _inner(owners: LineOwners) -> list[SslFunction]:
    """Return ``ssl_read_impl``, if it is one function, in which nothing else is inlined."""
    found = owners.with_reasons("ssl_read_impl", {UNINITIALIZED, HANDSHAKE_FAILURE})
    inner = {*found} - owners.of(_PEEK) - owners.of("SSL_shutdown")
    if len(inner) != 1:
        return []
    proof = "it alone raises both errors of its lines, without others around it"
    return [owners.ssl_function("ssl_read_impl", inner.pop(), [proof], [])]


def _peek(owners: LineOwners, address: int, copy: _Copy, doubts: list[str]) -> SslFunction:
    proofs = [
        f"it copies {copy} to its own buffer at {copy.place:#x}",
        "it stores nothing there",
    ]
    odd = _odd_sizes(owners, address, copy)
    against = [*doubts, odd] if odd else doubts
    returned = {value for _, value in owners.code.walk(address).returns}
    if any(is_one_of(value, each) for value in returned for each in _sizes(copy)):
        proofs.append("it returns the size, -1, 0 or what a callee returned")
    else:
        against = [*against, "it does not return the size that it copied"]
    return owners.ssl_function(_PEEK, address, proofs, against)


def _uses_others(owners: LineOwners, walk: Walk, takers: Collection[int]) -> bool:
    """Say whether a function that peeks is none of the library: it reads or writes, too."""
    called = {each.target for each in walk.calls}
    inlined = any(walk.start in owners.of(each) for each in _CALLERS_OF_PEEK)
    return inlined or not called.isdisjoint(owners.of(_WRITE) | {*takers})


def _takers_that_call(owners: LineOwners, peek: int, copy: _Copy) -> dict[int, _Taker]:
    """Return the functions that hand all arguments to ``SSL_peek`` and take what it copied."""
    walks = {each: owners.code.walk(each) for each in owners.code.callers(peek) if each != peek}
    return {
        each: _Taker(copy, stores, call)
        for each, walk in walks.items()
        if (call := _hands_all_to(walk, peek)) and (stores := _taken(walk, copy))
    }


def _readers(owners: LineOwners, takers: dict[int, _Taker], doubts: list[str]) -> list[SslFunction]:
    """Return ``SSL_read``, and ``SSL_read_ex`` if it takes data itself; ``takers``: all that do."""
    counting = {each for each in takers if _counts(owners.code.walk(each))}
    plain = [each for each in takers if each not in counting]
    if len(plain) != 1 or len(counting) > 1:
        reason = f"{len(takers)} functions take received data ({hex_list([*takers])})"
        return [refused(_READ, reason)]
    findings = [_reader(owners, _READ_EX, each, takers[each], []) for each in counting]
    doubts = [
        *doubts,
        *(f"{_READ_EX} takes data, too, and {each}" for ex in findings for each in ex.against),
    ]
    return [*findings, _reader(owners, _READ, plain[0], takers[plain[0]], doubts)]


def _reader(
    owners: LineOwners, name: str, address: int, taker: _Taker, doubts: list[str]
) -> SslFunction:
    if taker.call is None:
        proofs = [
            "it has the line of SSL_peek",
            f"it copies {taker.copy} to its own buffer at {taker.copy.place:#x}",
        ]
        inlined = _INLINED_IN_READ
    else:
        proofs = [f"it hands its object, buffer and size to SSL_peek at {taker.call:#x}"]
        inlined = frozenset()
    proofs.append(f"it takes away what was copied: {taker.stores}")
    against = [*doubts]
    if name == _READ_EX:
        proofs.append("it stores 8 bytes where its fourth argument points to")
        odd = odd_results(owners.code, address, lambda each: number_of(each) in (0, 1))
        returned = "it returns 0 or 1"
    elif taker.call is None:
        odd = _odd_sizes(owners, address, taker.copy)
        returned = "it returns -1, 0, what a callee returned, its size or the copied size"
    else:
        odd = odd_results(owners.code, address, _is_peek_s_result)
        returned = "it returns what SSL_peek returned, 0 or -1"
    if odd:
        against.append(odd)
    else:
        proofs.append(returned)
    others = {*owners.other_names(address, _PEEK, _READ, name)} - inlined
    if others:
        against.append(f"it has lines of {', '.join(sorted(others))}, too")
    if any(each.target in owners.of(_WRITE) for each in owners.code.walk(address).calls):
        against.append("it calls SSL_write, too")
    if name == _READ and not owners.code.is_called(address):
        against.append(NOT_CALLED)
    return owners.ssl_function(name, address, proofs, against)


def _odd_sizes(owners: LineOwners, address: int, copy: _Copy) -> str:
    """Return what a function returns other than -1, 0, a callee's result or a size; "": nothing."""

    def is_good(value: Value | None) -> bool:
        return is_callee_result(value) or any(is_one_of(value, each) for each in _sizes(copy))

    return odd_results(owners.code, address, is_good)


def _sizes(copy: _Copy) -> tuple[Value, ...]:
    """Return the sizes that may have been copied: what was asked for, or what is there."""
    return (SIZE, MemoryField(copy.state, copy.offset + _WORD_BYTES), *copy.sizes)


def _is_peek_s_result(value: Value | None) -> bool:
    if isinstance(value, Number):
        return value.value in (0, *_MINUS_ONE)
    return is_callee_result(value)


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


def _taken(walk: Walk, copy: _Copy) -> str:
    """Return the stores of a function to the pointer and the size of what is copied.

    "": it does not store both.
    """
    places = (copy.offset, copy.offset + _WORD_BYTES)
    stores = {
        (each.address, each.offset, each.size)
        for each in walk.stores
        if each.base == copy.state
        and each.offset in places
        and each.size in (_WORD_BYTES, 2 * _WORD_BYTES)
    }
    changed = {place for _, at, size in stores for place in places if at <= place < at + size}
    if len(changed) != len(places):
        return ""
    return ", ".join(
        f"{size} bytes to [{shown(copy.state)}+{offset:#x}] at {at:#x}"
        for at, offset, size in sorted(stores)
    )


def _counts(walk: Walk) -> bool:
    """Say whether a function stores a count where its fourth argument points to."""
    return any(
        (each.base, each.offset, each.size) == (_COUNT_PLACE, 0, _WORD_BYTES)
        for each in walk.stores
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
