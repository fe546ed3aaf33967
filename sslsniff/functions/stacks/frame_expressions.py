"""Runs the expressions of frame descriptions on a copied stack (DWARF 5, sections 2.5 and 6.4.2).

The C library and the linker write them by hand: of signal frames, and of the table of the functions
that are linked late. These have no more than the operations here.
"""

import operator
from collections.abc import Callable, Sequence

from sslsniff.elf.byte_reader import Bytes, DamagedError

_MASK = (1 << 64) - 1
_ADDR, _DEREF, _DUP, _DROP, _OVER, _SWAP = 0x03, 0x06, 0x12, 0x13, 0x14, 0x16
_PLUS_UCONST, _NOP = 0x23, 0x96
_LIT0, _BREG0, _BREGX = 0x30, 0x70, 0x92
_CONSTANTS = {0x08: (1, False), 0x09: (1, True), 0x0A: (2, False), 0x0B: (2, True)} | {
    0x0C: (4, False),
    0x0D: (4, True),
    0x0E: (8, False),
    0x0F: (8, True),
}
_CONSTU, _CONSTS = 0x10, 0x11
_MOST_OPERATIONS = 256


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _comparison(compare: Callable[[int, int], bool]) -> Callable[[int, int], int]:
    return lambda first, second: int(compare(_signed(first), _signed(second)))


_BINARY: dict[int, Callable[[int, int], int]] = {
    0x1A: operator.and_,
    0x1C: operator.sub,
    0x1E: operator.mul,
    0x21: operator.or_,
    0x22: operator.add,
    0x24: lambda first, second: first << second if second < 64 else 0,
    0x25: lambda first, second: first >> second if second < 64 else 0,
    0x27: operator.xor,
    0x29: _comparison(operator.eq),
    0x2A: _comparison(operator.ge),
    0x2B: _comparison(operator.gt),
    0x2C: _comparison(operator.le),
    0x2D: _comparison(operator.lt),
    0x2E: _comparison(operator.ne),
}


def run_expression(
    expression: bytes,
    registers: Sequence[int | None],
    read: Callable[[int], int | None],
    first: Sequence[int] = (),
) -> int | None:
    """Return the value of an expression; None: it cannot be known.

    ``registers``: by their numbers in DWARF; ``read``: returns the word at an address.
    ``first``: what is on the stack of values at first.
    """
    try:
        return _run(Bytes(expression), registers, read, [*first])
    except (DamagedError, IndexError, TypeError):  # too few values, or one that is not known
        return None


def _run(
    source: Bytes,
    registers: Sequence[int | None],
    read: Callable[[int], int | None],
    values: list[int],
) -> int | None:
    for _ in range(_MOST_OPERATIONS):
        if source.at >= len(source.data):
            return values[-1]
        operation = source.fixed(1)
        if operation in _BINARY:
            second, top = values.pop(), values.pop()
            values.append(_BINARY[operation](top, second) & _MASK)
        elif _LIT0 <= operation < _LIT0 + 32:
            values.append(operation - _LIT0)
        elif _BREG0 <= operation < _BREG0 + 32:
            values.append(_based(registers[operation - _BREG0], source.sleb()))
        elif operation == _BREGX:
            register = source.uleb()
            values.append(_based(registers[register], source.sleb()))
        elif operation == _DEREF:
            values.append(_based(read(values.pop()), 0))
        elif operation == _PLUS_UCONST:
            values.append(_based(values.pop(), source.uleb()))
        elif operation in _CONSTANTS:
            size, is_signed = _CONSTANTS[operation]
            value = int.from_bytes(source.block(size), "little", signed=is_signed)
            values.append(value & _MASK)
        elif operation in {_CONSTU, _CONSTS}:
            values.append((source.uleb() if operation == _CONSTU else source.sleb()) & _MASK)
        elif operation in {_DUP, _OVER}:
            values.append(values[-1 if operation == _DUP else -2])
        elif operation == _DROP:
            values.pop()
        elif operation == _SWAP:
            values[-2:] = values[:-3:-1]
        elif operation == _ADDR:
            values.append(source.fixed(8))
        elif operation != _NOP:
            raise DamagedError
    return None


def _based(value: int | None, offset: int) -> int:
    if value is None:
        raise DamagedError
    return (value + offset) & _MASK
