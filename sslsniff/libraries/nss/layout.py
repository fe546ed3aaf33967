"""Where NSS keeps a socket's role, read from the functions that begin its handshakes.

``ssl_BeginServerHandshake`` sets ``ss->sec.isServer`` to 1, ``ssl_BeginClientHandshake`` sets it to
0 (lib/ssl/sslcon.c). The server's name, the application protocol and the TLS version are not read.
"""

from sslsniff.elf.elf_file import Elf
from sslsniff.elf.symbols import Function
from sslsniff.libraries.nss.socket_operations import CONNECTS
from sslsniff.machine_code.known_values import Argument, Number
from sslsniff.matching.object_layout import ObjectLayout
from sslsniff.matching.probe_set import UnfitError

_INT_BYTES = 4
_OBJECT = "rdi"


def read_nss_layout(elf: Elf) -> ObjectLayout:
    """Return the layout of sockets of the library in ``elf``."""
    from sslsniff.matching.hidden_functions import find_table, stored_functions

    try:
        connects = find_table(elf, CONNECTS.table)[CONNECTS.number]
    except UnfitError:
        return ObjectLayout()
    assert connects is not None
    begins = [_numbers_stored(elf, each) for each in stored_functions(elf, connects, _OBJECT)]
    fields = {
        offset
        for one in begins
        for other in begins
        for offset, number in one.items()
        if (number, other.get(offset)) == (1, 0)
    }
    return ObjectLayout(server=fields.pop() if len(fields) == 1 else None)


def _numbers_stored(elf: Elf, function: Function) -> dict[int, int]:
    """Return the offsets in its object at which a function stores an int -> the number."""
    from sslsniff.matching.hidden_functions import flow_of

    flow = flow_of(elf, function)
    found: dict[int, int] = {}
    for address, state in flow.states.items():
        operation = flow.code.operations[address]
        for memory in operation.stores:
            is_own = memory.base and state.one(memory.base) == Argument(_OBJECT)
            values = state.value(operation.source) or ()
            if is_own and memory.is_exact and memory.size == _INT_BYTES and len(values) == 1:
                [value] = values
                if isinstance(value, Number):
                    found[memory.offset] = value.value
    return found
