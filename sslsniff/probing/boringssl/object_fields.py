"""Where BoringSSL's objects have role, server name and ALPN: read off from functions that use them.

- ``SSL_do_handshake`` tells its callback whether it is the server's: a bit of the object.
- ``SSL_set_tlsext_host_name`` stores the name that a client asks for.
- ``SSL_get_servername`` returns that name, else the one that a server got, in ``ssl->s3``.
- ``SSL_get0_alpn_selected`` stores pointer and size of the protocol, which come before that name.

The last two raise no errors: they are known by what they do with fields that are known then.
"""

import re
import struct
from collections.abc import Iterator
from typing import TypeVar

from sslsniff.elf.symbols import Function
from sslsniff.machine_code.data_flow import Flow
from sslsniff.machine_code.function_code import Code
from sslsniff.machine_code.instructions import instruction_lines, whole_register
from sslsniff.machine_code.known_values import Argument, MemoryField, Number, Value
from sslsniff.machine_code.stripped.path_walk import Walk
from sslsniff.machine_code.stripped.stripped_code import StrippedCode
from sslsniff.probing.boringssl.evidence import BUFFER, OBJECT, SIZE, SslFunction, is_one_of
from sslsniff.probing.object_layout import ObjectLayout

_Field = TypeVar("_Field")

_WORD_BYTES, _INT_BYTES = 8, 4
_ALPN_BYTES = 16  # pointer and size, right before the server's name
_SEARCHED_BYTES = 96
_MOST_STEPS = 100
_SERVER_BIT = 1
_LOAD = re.compile(r"(\w+), byte ptr \[(\w+) \+ (0x[0-9a-f]+)\]")
_TEST = re.compile(r"byte ptr \[(\w+) \+ (0x[0-9a-f]+)\], 1")
_MOST_BETWEEN = 12
"""How many instructions are between the load of a byte and the mask, at most."""

_CALLBACK_VALUES = ("0x1002", "0x2002")
"""SSL_CB_CONNECT_EXIT, SSL_CB_ACCEPT_EXIT: what the role decides (include/openssl/ssl.h)."""


def read_object_fields(code: StrippedCode, functions: list[SslFunction]) -> ObjectLayout:
    """Return the fields that ``functions`` prove; the others are unknown. Raises ``ElfError``."""
    proved = {each.name: each.function for each in functions if each.is_proved and each.function}
    layout = ObjectLayout()
    if "SSL_do_handshake" in proved:
        server = _server_byte(code, proved["SSL_do_handshake"])
        if server is not None:
            layout = layout._replace(server=server, server_mask=_SERVER_BIT)
    if "SSL_set_tlsext_host_name" not in proved:
        return layout
    name = _stored_field(code.walk(proved["SSL_set_tlsext_host_name"].address))
    if name is None:
        return layout
    layout = layout._replace(sni=name)
    inner = _only({each for walk in _using(code, name) if (each := _inner_name(walk, name))})
    if inner is None:
        return layout
    state, offset = inner
    layout = layout._replace(sni_base=state, sni_inner=offset)
    alpn = offset - _ALPN_BYTES
    if any(_gives_field(walk, state, alpn) for walk in _using(code, alpn)):
        layout = layout._replace(alpn_base=state, alpn=alpn, alpn_length=alpn + _WORD_BYTES)
    return layout


def _server_byte(code: StrippedCode, handshake: Function) -> int | None:
    """Return the offset of the byte whose lowest bit tells the role; None: it is not one byte."""
    data = code.elf.code(handshake)
    lines = list(instruction_lines(data, handshake.address))
    if not any(operands.endswith(_CALLBACK_VALUES) for *_, operands in lines):
        return None
    states = Flow(Code(data, handshake.address)).states
    found = set()
    for at, (address, _, mnemonic, operands) in enumerate(lines):
        state = states.get(address)
        load, test = _LOAD.fullmatch(operands), _TEST.fullmatch(operands)
        if state is None:
            continue
        if mnemonic == "movzx" and load and state.one(load[2]) == OBJECT:
            after = lines[at + 1 : at + 1 + _MOST_BETWEEN]
            if any(_masks(each, load[1]) for each in after):
                found.add(int(load[3], 16))
        elif mnemonic == "test" and test and state.one(test[1]) == OBJECT:
            found.add(int(test[2], 16))
    return _only(found)


def _masks(line: tuple[int, int, str, str], register: str) -> bool:
    """Say whether an instruction keeps only the lowest bit of a register."""
    _, _, mnemonic, operands = line
    target, _, mask = operands.partition(", ")
    return mnemonic == "and" and mask == "1" and whole_register(target) == whole_register(register)


def _stored_field(walk: Walk) -> int | None:
    """Return the offset of the one pointer that a function stores in its object."""
    return _only(
        {each.offset for each in walk.stores if each.base == OBJECT and each.size == _WORD_BYTES}
    )


def _using(code: StrippedCode, offset: int) -> Iterator[Walk]:
    """Yield the short functions around that may use the field at an offset."""
    encoded = struct.pack("<I", offset) if offset >= 1 << 7 else bytes((offset,))
    for start in sorted(code.starts.starts):
        if encoded in code.bytes_at(start, _SEARCHED_BYTES):
            walk = code.brief_walk(start, _MOST_STEPS)
            if walk.problem is None and max(walk.reached) - start < _SEARCHED_BYTES:
                yield walk


def _inner_name(walk: Walk, name: int) -> tuple[int, int] | None:
    """Return where ``SSL_get_servername`` finds a server's name; None: it is another function.

    It returns the field ``name``, a field of what another one points to, or 0; and calls nothing.
    """
    own = MemoryField(OBJECT, name)
    values = {value for _, value in walk.returns} - {own, Number(0)}
    if walk.calls or own not in {value for _, value in walk.returns} or len(values) != 1:
        return None
    [inner] = values
    if not isinstance(inner, MemoryField) or not isinstance(inner.base, MemoryField):
        return None
    state = inner.base
    return (state.offset, inner.offset) if state.base == OBJECT else None


def _gives_field(walk: Walk, state: int, offset: int) -> bool:
    """Say whether a function stores a pointer and a size of ``state`` where its arguments say."""
    base = MemoryField(OBJECT, state)
    pointer, size = MemoryField(base, offset), MemoryField(base, offset + _WORD_BYTES)
    return _stores(walk, BUFFER, _WORD_BYTES, pointer) and _stores(walk, SIZE, _INT_BYTES, size)


def _stores(walk: Walk, place: Argument, size: int, value: Value) -> bool:
    return any(
        (each.base, each.offset, each.size) == (place, 0, size) and is_one_of(each.value, value)
        for each in walk.stores
    )


def _only(found: set[_Field]) -> _Field | None:
    return found.pop() if len(found) == 1 else None
