"""Finds role, server name and ALPN in BoringSSL's objects, by the functions that use these fields.

- ``SSL_do_handshake`` tells its callback whether it is the server's: a bit of the object.
- ``SSL_set_tlsext_host_name`` stores the name that a client asks for.
- ``SSL_get_servername`` returns that name, else the one that a server got, in ``ssl->s3``.
- ``SSL_get0_alpn_selected`` stores pointer and size of a protocol where its arguments say: that of
  early data in a client, else the one in ``ssl->s3``.

The last two raise no errors: they are known by what they do with fields that are known then.
"""

import re
import struct
from collections.abc import Iterable, Iterator
from typing import TypeVar

from sslsniff.elf.symbols import Function
from sslsniff.machine_code.data_flow import Flow
from sslsniff.machine_code.function_code import Code
from sslsniff.machine_code.instructions import instruction_lines, whole_register
from sslsniff.machine_code.known_values import (
    Argument,
    Inside,
    Low,
    MemoryField,
    Number,
    Result,
)
from sslsniff.machine_code.stripped.path_walk import Walk
from sslsniff.machine_code.stripped.stripped_code import StrippedCode
from sslsniff.matching.object_layout import ObjectLayout
from sslsniff.matching.stripped.evidence import BUFFER, OBJECT, SIZE, SslFunction

_Field = TypeVar("_Field")

_WORD_BYTES, _INT_BYTES = 8, 4
_SEARCHED_BYTES = 128
_MOST_STEPS = 100
_MOST_NEAR_BYTES = 1 << 12
_CHOICES = 2  # a client's protocol is that of early data at first
_SERVER_BIT = 1
_OBJECT_S_POINTER = (OBJECT, _WORD_BYTES)
_LOADS = ("mov", "movzx")
_LOAD = re.compile(r"(\w+), byte ptr \[(\w+) \+ (0x[0-9a-f]+)\]")
_TEST = re.compile(r"byte ptr \[(\w+) \+ (0x[0-9a-f]+)\], 1")
_MOST_BETWEEN = 12
"""How many instructions are between the load of a byte and the mask, at most."""

_CALLBACK_VALUES = ("0x1002", "0x2002")
"""SSL_CB_CONNECT_EXIT, SSL_CB_ACCEPT_EXIT: what the role decides (include/openssl/ssl.h)."""


def read_object_fields(
    code: StrippedCode, functions: list[SslFunction], state: int | None
) -> ObjectLayout:
    """Return the fields that ``functions`` prove; the others are unknown. Raises ``ElfError``.

    ``state``: the offset of ``ssl->s3``; None: unknown.
    """
    proved = {each.name: _near_parts(each) for each in functions if each.is_proved}
    layout = ObjectLayout()
    if "SSL_do_handshake" in proved:
        server = _server_byte(code, proved["SSL_do_handshake"])
        if server is not None:
            layout = layout._replace(server=server, server_mask=_SERVER_BIT)
    if "SSL_set_tlsext_host_name" in proved:
        name = _stored_field(code.walk(proved["SSL_set_tlsext_host_name"].address))
        layout = layout._replace(sni=name)
    if state is None:
        return layout
    if layout.sni is not None:
        inner = _only(_inner_name(each, layout.sni, state) for each in _using(code, layout.sni))
        if inner is not None:
            layout = layout._replace(sni_base=state, sni_inner=inner)
    if layout.server is not None:
        alpn = _only(_protocol(each, state) for each in _using(code, layout.server))
        if alpn is not None:
            length = alpn + _WORD_BYTES
            layout = layout._replace(alpn_base=state, alpn=alpn, alpn_length=length)
    return layout


def _near_parts(found: SslFunction) -> Function:
    """Return a function with its parts that follow soon: optimisers put others' parts between."""
    assert found.function is not None
    start = found.function.address
    ends = [each.address + each.size - start for each in found.cold_parts]
    near = [each for each in ends if 0 < each < _MOST_NEAR_BYTES]
    return Function(start, max([found.function.size, *near]))


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
        if mnemonic in _LOADS and load and state.one(load[2]) == OBJECT:
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
    """Return the offset of the one pointer that a function stores in its object.

    It does so itself, or another function gets the field's address, and the result of a function.
    """
    stored = {each.offset for each in walk.stores if (each.base, each.size) == _OBJECT_S_POINTER}
    handed = {
        place.offset
        for each in walk.calls
        if isinstance(place := each.argument("rdi"), Inside)
        and place.base == OBJECT
        and isinstance(each.argument("rsi"), Result)
    }
    return _only(stored | handed)


def _using(code: StrippedCode, offset: int) -> Iterator[Walk]:
    """Yield the short functions around that may use the field at an offset."""
    encoded = struct.pack("<I", offset) if offset >= 1 << 7 else bytes((offset,))
    for start in sorted(code.starts.starts):
        if encoded in code.bytes_at(start, _SEARCHED_BYTES):
            walk = code.brief_walk(start, _MOST_STEPS)
            if walk.problem is None and max(walk.reached) - start < _SEARCHED_BYTES:
                yield walk


def _inner_name(walk: Walk, name: int, state: int) -> int | None:
    """Return where ``SSL_get_servername`` finds a server's name; None: it is another function.

    It returns the field ``name``, a field of what ``state`` points to, or 0; and calls nothing. The
    object is its first argument, or that has a pointer to the object if the function is inlined.
    """
    values = {value for _, value in walk.returns} - {Number(0)}
    own = {each for each in values if isinstance(each, MemoryField) and each.offset == name}
    rest = values - own
    if walk.calls or len(own) != 1 or len(rest) != 1:
        return None
    ssl = own.pop().base
    is_object = ssl == OBJECT or (isinstance(ssl, MemoryField) and ssl.base == OBJECT)
    inner = rest.pop()
    if is_object and isinstance(inner, MemoryField) and inner.base == MemoryField(ssl, state):
        return inner.offset
    return None


def _protocol(walk: Walk, state: int) -> int | None:
    """Return where ``SSL_get0_alpn_selected`` finds the protocol; None: it is another function.

    It stores a pointer and a size of what ``state`` points to, or those of a session of early data,
    and calls nothing. All others that store two such fields have no choice, or longer sizes.
    """
    pointers = _stored_fields(walk, BUFFER, _WORD_BYTES)
    sizes = _stored_fields(walk, SIZE, _INT_BYTES)
    if walk.calls or pointers is None or sizes is None or len(pointers) != _CHOICES:
        return None
    if {MemoryField(each.base, each.offset + _WORD_BYTES) for each in pointers} != sizes:
        return None
    return _only(each.offset for each in pointers if each.base == MemoryField(OBJECT, state))


def _stored_fields(walk: Walk, place: Argument, size: int) -> set[MemoryField] | None:
    """Return the fields, ``size`` bytes each, that a function stores where an argument points to.

    None: it stores something else there.
    """
    fields = set()
    for each in walk.stores:
        if each.base == place:
            value = each.value.value if isinstance(each.value, Low) else each.value
            if not isinstance(value, MemoryField) or (each.offset, each.size) != (0, size):
                return None
            fields.add(value)
    return fields


def _only(found: Iterable[_Field | None]) -> _Field | None:
    """Return what was found, if it is one."""
    known = {each for each in found if each is not None}
    return known.pop() if len(known) == 1 else None
