"""Where OpenSSL's objects have role, server name and ALPN, in a program without symbols.

The accessor functions raise no errors, so nothing names them. These use the fields, and are named
by errors of their own, since 3.0 (``named_errors``):

- ``SSL_read_early_data`` and ``SSL_verify_client_post_handshake`` refuse a client. They compare no
  other field with 0 that is not at the object's beginning (ssl/ssl_lib.c).
- ``tls_parse_ctos_server_name`` clears, and then stores the name that the client asks for, where a
  client has it, too (ssl/statem/extensions_srvr.c).
- ``tls_parse_stoc_alpn`` stores the protocol, and its length after it
  (ssl/statem/extensions_clnt.c).
"""

import re
from collections.abc import Iterable, Iterator, Mapping

from sslsniff.elf.symbols import Function
from sslsniff.machine_code.data_flow import Flow
from sslsniff.machine_code.function_code import Code
from sslsniff.machine_code.instructions import instruction_lines, whole_register
from sslsniff.machine_code.known_values import Number, Result
from sslsniff.machine_code.stripped.path_walk import WalkedStore
from sslsniff.machine_code.stripped.stripped_code import StrippedCode
from sslsniff.matching.accessors import only
from sslsniff.matching.object_layout import ObjectLayout
from sslsniff.matching.stripped.evidence import OBJECT

_ROLE = ("SSL_read_early_data", "SSL_verify_client_post_handshake")
_SERVER_NAME, _PROTOCOL = "tls_parse_ctos_server_name", "tls_parse_stoc_alpn"
NAMES = (*_ROLE, _SERVER_NAME, _PROTOCOL)
"""The functions whose code is read."""

_WORD_BYTES = 8
_MOST_BETWEEN = 4
"""How many instructions are between the load of an int and its test, at most."""
_FIELD = r"dword ptr \[(?P<base>\w+) \+ (?P<offset>\w+)\]"
_LOAD = re.compile(rf"mov (?P<to>\w+), {_FIELD}")
_ZERO_COMPARISON = re.compile(rf"cmp {_FIELD}, 0")


def read_openssl_fields(code: StrippedCode, owners: Mapping[str, int]) -> ObjectLayout:
    """Return the fields that functions prove; the others are unknown. Raises ``ElfError``.

    ``owners``: where the functions of ``NAMES`` begin, as far as they are found.
    """
    tested = [{*_tested(code, owners.get(each))} for each in _ROLE]
    pointers = {name: [*_stored_pointers(code, owners.get(name))] for name in NAMES}
    alpn = only({*_made(pointers[_PROTOCOL])})
    length = alpn + _WORD_BYTES if alpn is not None else None
    has_length = length in {each.offset for each in pointers[_PROTOCOL]}
    names = {*_made(pointers[_SERVER_NAME])}
    return ObjectLayout(
        server=only(set.intersection(*tested)),
        alpn=alpn if has_length else None,
        alpn_length=length if has_length else None,
        sni=only(names) if names <= {*_cleared(pointers[_SERVER_NAME])} else None,
    )


def _tested(code: StrippedCode, start: int | None) -> Iterator[int]:
    """Yield the offsets of the object's ints that a function compares with 0.

    On some paths, the connection of a QUIC object may be in the object's place.
    """
    function = code.function(start) if start is not None else None
    if function is None:
        return
    states = Flow(Code(code.elf.code(function), function.address)).states
    lines = _lines(code, function)
    for at, (address, line) in enumerate(lines):
        load = _LOAD.fullmatch(line)
        found = load or _ZERO_COMPARISON.fullmatch(line)
        state = states.get(address)
        if found is None or state is None:
            continue
        if OBJECT not in state.registers.get(whole_register(found["base"]), ()):
            continue
        if load is None or _is_tested(load["to"], lines[at + 1 : at + 1 + _MOST_BETWEEN]):
            yield int(found["offset"], 0)


def _lines(code: StrippedCode, function: Function) -> list[tuple[int, str]]:
    data = code.elf.code(function)
    return [
        (address, f"{mnemonic} {operands}")
        for address, _, mnemonic, operands in instruction_lines(data, function.address)
    ]


def _is_tested(register: str, lines: list[tuple[int, str]]) -> bool:
    """Say whether the next instruction that names a register first compares it with 0."""
    own = re.compile(rf"\w+ {register}\b")
    line = next((line for _, line in lines if own.match(line)), "")
    return line == f"test {register}, {register}"


def _stored_pointers(code: StrippedCode, start: int | None) -> Iterator[WalkedStore]:
    """Yield the stores of 8 bytes to the object of a function."""
    for each in code.walk(start).stores if start is not None else ():
        if each.base == OBJECT and each.size == _WORD_BYTES:
            yield each


def _made(stores: Iterable[WalkedStore]) -> Iterator[int]:
    """Yield the offsets at which a function stores what another one returned."""
    return (each.offset for each in stores if isinstance(each.value, Result))


def _cleared(stores: Iterable[WalkedStore]) -> Iterator[int]:
    """Yield the offsets at which a function stores a null pointer."""
    return (each.offset for each in stores if each.value == Number(0))
