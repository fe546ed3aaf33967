"""Proves which functions begin and end connections.

``SSL_new``, ``SSL_do_handshake``, ``SSL_shutdown``, ``SSL_free``.
"""

from sslsniff.libraries.boringssl.error_reasons import (
    APPLICATION_DATA_ON_SHUTDOWN,
    CONNECTION_TYPE_NOT_SET,
    INVALID_SERVERNAME,
    NULL_SSL_CTX,
    UNINITIALIZED,
)
from sslsniff.machine_code.known_values import MemoryField, Number, Result, Value
from sslsniff.machine_code.stripped.path_walk import Walk
from sslsniff.matching.stripped.error_calls import number_of
from sslsniff.matching.stripped.evidence import (
    BUFFER,
    NOT_CALLED,
    OBJECT,
    LineOwners,
    SslFunction,
    hex_list,
    odd_results,
)

_SSL_FREE = MemoryField(MemoryField(OBJECT, 0), 0x10)
"""``ssl->method->ssl_free`` (ssl/internal.h, SSL_PROTOCOL_METHOD: is_dtls, ssl_new, ssl_free)."""

_MOST_STEPS = 300  # of SSL_free, which makes two calls


def find_handshake(owners: LineOwners, users: list[SslFunction]) -> SslFunction:
    """Return ``SSL_do_handshake``; ``users``: the found functions that must call it."""
    name = "SSL_do_handshake"
    found = owners.with_reasons(name, {CONNECTION_TYPE_NOT_SET})
    users = [each for each in users if each.function is not None]
    calling = [
        each for each in found if all(_calls(owners, user, each) for user in users) and users
    ]
    if len(calling) != 1:
        return SslFunction(
            name,
            None,
            against=(
                f"its line is in {len(found)} functions ({hex_list(found)}), and"
                f" {_names(users) or 'no user of it'} calls {len(calling)} of them",
            ),
        )
    proofs = ["it has its line", f"{_names(users)} call it"]
    others = owners.other_names(calling[0], name)
    against = [f"it has lines of {', '.join(others)}, too"] if others else []
    return owners.ssl_function(name, calling[0], proofs, against)


def find_shutdown(owners: LineOwners) -> SslFunction | None:
    """Return ``SSL_shutdown``; None: the program has none of its lines."""
    name = "SSL_shutdown"
    if not owners.of(name):
        return None
    found = owners.with_reasons(name, {UNINITIALIZED, APPLICATION_DATA_ON_SHUTDOWN})
    if len(found) != 1 or len(owners.of(name)) != 1:
        return SslFunction(
            name, None, against=(f"its lines are in {len(owners.of(name))} functions",)
        )
    proofs = ["all of its lines are in this function, and in no other"]
    others = {*owners.other_names(found[0], name)} & {"SSL_write", "SSL_peek", "SSL_key_update"}
    against = [f"it has lines of {', '.join(sorted(others))}, too"] if others else []
    # Compilers make clones with other arguments.
    if any(each.argument("rdi") == OBJECT for each in owners.code.walk(found[0]).calls):
        proofs.append("it hands its object on")
    else:
        against.append("it hands its object to no function")
    return owners.ssl_function(name, found[0], proofs, against)


def find_new_and_free(owners: LineOwners) -> list[SslFunction]:
    """Return ``SSL_new`` and ``SSL_free``, as far as they are found."""
    found = {
        each.owner
        for each in owners.errors
        if each.reason == NULL_SSL_CTX and each.line < owners.first_line
    }
    if len(found) != 1:
        return [
            SslFunction(
                "SSL_new", None, against=(f"its reason is raised in {len(found)} functions",)
            )
        ]
    [address] = found
    free = _free(owners, address)
    proofs = [f"it alone raises {NULL_SSL_CTX} before the line of SSL_do_handshake"]
    against = []
    if free.is_proved:
        proofs.append("SSL_free destroys and frees what it made")
    else:
        against.append("no SSL_free for what it made is proved")
    # Its last steps call destructors, which may have the address of the result's place.
    odd = odd_results(
        owners.code, address, lambda each: each in (None, Number(0)) or isinstance(each, Result)
    )
    if odd:
        against.append(odd)
    if not owners.code.is_called(address):
        against.append(NOT_CALLED)
    new = owners.ssl_function("SSL_new", address, proofs, against)
    return [new._replace(lines=_lines_of(owners, address, NULL_SSL_CTX)), free]


def find_server_name(owners: LineOwners) -> SslFunction | None:
    """Return ``SSL_set_tlsext_host_name(ssl, name)``; None: the program has none of its lines."""
    name = "SSL_set_tlsext_host_name"
    found = {
        each.owner
        for each in owners.errors
        if each.reason == INVALID_SERVERNAME and each.line > owners.first_line
    }
    if not found:
        return None
    if len(found) != 1:
        return SslFunction(name, None, against=(f"its reason is raised in {len(found)} functions",))
    [address] = found
    proofs = [f"it alone raises {INVALID_SERVERNAME} after the line of SSL_do_handshake"]
    against = []
    walk = owners.code.walk(address)
    # strlen and OPENSSL_strdup get the name. What it is inlined into has other arguments.
    if any(each.argument("rdi") == BUFFER for each in walk.calls):
        proofs.append("it hands its second argument to functions of one text")
    else:
        against.append("it hands its second argument to no function of a text")
    odd = odd_results(owners.code, address, lambda each: number_of(each) in (None, 0, 1))
    if odd:
        against.append(odd)
    others = owners.other_names(address, name)
    if others:
        against.append(f"it has lines of {', '.join(others)}, too")
    function = owners.ssl_function(name, address, proofs, against)
    return function._replace(lines=_lines_of(owners, address, INVALID_SERVERNAME))


def _free(owners: LineOwners, new: int) -> SslFunction:
    """Return ``SSL_free``: it destroys and frees what the function at ``new`` makes."""
    name = "SSL_free"
    made_calls = [each for each in owners.code.walk(new).calls if each.target is not None]
    made: set[Value] = {Result(each.address) for each in made_calls}
    handed = {each.target for each in made_calls if each.target and each.argument("rdi") in made}
    near = {each for each in handed if owners.code.starts.is_covered(each)}
    destructors = {each: place for each in near if (place := _frees(owners, each))}
    if not destructors:
        # The functions that allocate and free are among these: all of the file calls them.
        owners.code.starts.cover(handed)
        destructors = {each: place for each in handed if (place := _frees(owners, each))}
    if not destructors:
        return _free_that_is_called(owners, new, handed)
    if len(destructors) != 1:
        reason = f"SSL_new destroys what it made by {len(destructors)} functions, not by one"
        return SslFunction(name, None, against=(reason,))
    [(destructor, place)] = destructors.items()
    shown = f"SSL_new destroys by it what it made; it calls method->ssl_free at {place:#x}"
    freeing = handed - {destructor}
    outer = {
        walk.start: freed
        for walk in owners.code.brief_callers(destructor, freeing, _MOST_STEPS)
        if walk.start not in (new, destructor)
        and destructor in (passed := _passed_on(walk))
        and (freed := passed & freeing)
    }
    if len(outer) == 1:
        [(address, freed)] = outer.items()
        proofs = [
            f"it hands its object to {destructor:#x}: {shown}",
            f"it hands its object to {hex_list(freed)}, as SSL_new does (OPENSSL_free)",
        ]
        return owners.ssl_function(name, address, proofs, [])
    called = {each.target for each in made_calls}
    freed_itself = _passed_on(owners.code.walk(destructor)) & called - {destructor}
    if not outer and len(freed_itself) == 1:
        proof = f"it hands its object to {hex_list(freed_itself)}, which SSL_new calls, too"
        return owners.ssl_function(name, destructor, [shown, proof], [])
    reason = f"{len(outer)} functions destroy and free their object ({hex_list([*outer])})"
    return SslFunction(name, None, against=(reason,))


def _free_that_is_called(owners: LineOwners, new: int, handed: set[int]) -> SslFunction:
    """Return the ``SSL_free`` that the function at ``new`` calls for what it made.

    ``handed``: the functions that get that. ``SSL_free`` destroys and then frees its object.
    """
    name = "SSL_free"
    called = {each.target for each in owners.code.walk(new).calls} - {None}
    found = {}
    for each in handed:
        passed = _passed_on(owners.code.walk(each))
        owners.code.starts.cover(passed)
        freed = passed & called
        destructors = {to: place for to in passed - freed if (place := _frees(owners, to))}
        if len(destructors) == 1 and len(freed) == 1:
            found[each] = next(iter(destructors.items())), freed
    if len(found) != 1:
        reason = f"SSL_new hands what it made to {len(found)} functions that destroy it, not to one"
        return SslFunction(name, None, against=(reason,))
    [(address, ((destructor, place), freed))] = found.items()
    proofs = [
        "SSL_new hands what it made to it",
        f"it hands its object to {destructor:#x}, which calls method->ssl_free at {place:#x}",
        f"it hands its object to {hex_list(freed)}, which SSL_new calls, too (OPENSSL_free)",
    ]
    return owners.ssl_function(name, address, proofs, [])


def _frees(owners: LineOwners, address: int) -> int | None:
    """Return where a function calls ``method->ssl_free`` with its own object; None: nowhere."""
    for each in owners.code.walk(address).calls:
        if each.through == _SSL_FREE and each.argument("rdi") == OBJECT:
            return each.address
    return None


def _passed_on(walk: Walk) -> set[int]:
    """Return the functions that get a function's own object first."""
    return {
        each.target
        for each in walk.calls
        if each.target is not None and each.argument("rdi") == OBJECT
    }


def _calls(owners: LineOwners, user: SslFunction, target: int) -> bool:
    assert user.function is not None
    return any(each.target == target for each in owners.code.walk(user.function.address).calls)


def _names(findings: list[SslFunction]) -> str:
    return " and ".join(each.name for each in findings)


def _lines_of(owners: LineOwners, owner: int, reason: int) -> tuple[tuple[int, int], ...]:
    lines = {(e.line, e.reason) for e in owners.errors if e.owner == owner and e.reason == reason}
    return tuple(sorted(lines))
