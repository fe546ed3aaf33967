"""Finds OpenSSL's tables of methods (``SSL_METHOD``), and the functions at an offset in each.

An SSL object has a pointer to one of these tables. Functions such as ``TLS_method`` return some
tables. Others are for one version or side, such as that of TLS 1.3, which no function returns: they
are found because they have pointers to the same functions.
"""

import struct
from collections.abc import Iterator
from functools import cached_property

from sslsniff.elf.elf_file import Elf
from sslsniff.elf.relocations import Pointers, read_pointers
from sslsniff.elf.symbols import Function
from sslsniff.machine_code.data_flow import Flow
from sslsniff.machine_code.function_code import Code
from sslsniff.machine_code.known_values import Number
from sslsniff.machine_code.operations import OperationKind

_TABLES = {
    "TLS_method": True,
    "DTLS_method": False,
    "OSSL_QUIC_client_method": False,
    "OSSL_QUIC_client_thread_method": False,
    "OSSL_QUIC_server_method": False,
}
"""Functions that return a table, and whether it is of TLS over TCP."""
_POINTER = struct.Struct("<Q")


class MethodTables:
    """The tables of methods in a file. Raises ``ElfError`` if the file is damaged."""

    def __init__(self, elf: Elf) -> None:
        self._elf = elf

    def at(self, offset: int) -> dict[int, bool]:
        """Return the functions at ``offset`` in all tables -> whether one of these is of TLS.

        If not, all of them are of DTLS or QUIC.
        """
        found: dict[int, bool] = {}
        for table, is_usual in self._with_hidden(offset).items():
            address = self._pointer(table + offset)
            if address:
                found[address] = found.get(address, False) or is_usual
        return found

    def _with_hidden(self, offset: int) -> dict[int, bool]:
        """Return all tables, with those that have the same function at ``offset``: none overlap."""
        shared = {self._pointer(table + offset): usual for table, usual in self._tables.items()}
        shared.pop(0, None)
        for place, address in self._pointers.to(shared):
            table = place - offset
            if not any(abs(table - each) <= offset for each in self._tables):
                self._tables[table] = shared[address]
        return self._tables

    @cached_property
    def _tables(self) -> dict[int, bool]:
        found: dict[int, bool] = {}
        for name, is_usual in _TABLES.items():
            function = self._elf.function(name)
            tables = () if function is None else self._returned(function, 0)
            found.update(dict.fromkeys(tables, is_usual))
        return found

    def _returned(self, function: Function, hops: int) -> Iterator[int]:
        """Yield the address that a function, or one that it jumps to, returns."""
        if not function.size or hops > 1:
            return
        code = Code(self._elf.code(function), function.address)
        for address, state in Flow(code).states.items():
            operation = code.operations[address]
            if operation.kind is OperationKind.RETURN:
                value = state.one("rax")
                if isinstance(value, Number) and value.value:
                    yield value.value
            elif operation.kind is OperationKind.JUMP and operation.leads_to is not None:
                inner = self._elf.function_at(operation.leads_to)
                if inner is not None:
                    yield from self._returned(inner, hops + 1)

    @cached_property
    def _pointers(self) -> Pointers:
        return read_pointers(self._elf)

    def _pointer(self, place: int) -> int:
        """Return the address of a function in the file that is at ``place``; 0: none."""
        address = self._pointers.at(place)
        if address is not None:
            return address
        name = self._elf.name_in(place)
        function = None if name is None else self._elf.function(name)
        if function is not None:
            return function.address
        data = self._elf.data(place, _POINTER.size)
        return int(_POINTER.unpack(data)[0]) if data else 0
