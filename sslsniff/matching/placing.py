"""Places the programs for the entry and the returns of a function as probes."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from sslsniff.elf.elf_file import Elf
from sslsniff.elf.symbols import Function
from sslsniff.machine_code import conventions
from sslsniff.machine_code.conventions import Signature
from sslsniff.machine_code.instructions import jump_targets
from sslsniff.machine_code.probe_sites import Cost, best_site
from sslsniff.machine_code.returns import FunctionEnds, function_ends, return_sites
from sslsniff.matching.probe_set import Probe, ReturnStyle, UnfitError

if TYPE_CHECKING:
    from sslsniff.machine_code.call_chains import Link
    from sslsniff.machine_code.probe_pairs import Leave
    from sslsniff.matching.rows import Row


class FunctionPrograms(Protocol):
    """The BPF programs of a plan for one function."""

    @property
    def enter(self) -> str | None:
        """The BPF program for its entry."""

    @property
    def leave(self) -> str | None:
        """The BPF program for its returns."""

    @property
    def registers(self) -> tuple[str, ...]:
        """The registers that ``enter`` reads."""


def entry_probes(
    elf: Elf,
    name: str,
    function: Function,
    programs: FunctionPrograms,
    style: ReturnStyle,
    cold_parts: Sequence[Function] = (),
) -> Iterator[Probe]:
    """Yield the probes at a function's first instructions, and at its returns.

    ``cold_parts``: the parts of the function that are elsewhere, as far as they are known. Raises
    ``UnfitError``, with ``name`` for the function.
    """
    enter, leave = programs.enter, programs.leave
    if style is ReturnStyle.INSTRUCTIONS:
        cheap = cheap_probes(elf, function, programs, style, cold_parts)
        yield from cheap
        if cheap:
            return
    code = elf.code(function)
    site = best_site(code, function.address, programs.registers, with_return=leave is not None)
    if site is None:
        raise UnfitError(f"{name} has no place for a probe")
    offset = elf.offset(site.address)
    if enter is not None:
        yield Probe(enter, offset, False, site.cost)
    if leave is None:
        return
    if style is ReturnStyle.TRAMPOLINE:
        yield Probe(leave, offset, True, site.cost)
        return
    returns = _returns(elf, function, cold_parts)
    if not returns:
        raise UnfitError(f"{name} has ways out other than its return instructions")
    for address in returns:
        yield Probe(leave, elf.offset(address), False, Cost.STEPPED)


def _returns(elf: Elf, function: Function, cold_parts: Sequence[Function]) -> Sequence[int] | None:
    """Return the return instructions of a function; None: it may end otherwise."""
    code = elf.code(function)
    returns = None if cold_parts else return_sites(code, function.address, elf.data)
    if returns is not None:
        return returns
    known = function, *cold_parts
    parts = [*known, *_parts_without_end(elf, known)]
    ends = function_ends([(each.address, elf.code(each)) for each in parts], elf.data)
    return ends.returns if ends.is_known and not ends.tail_calls else None


def _parts_without_end(elf: Elf, parts: Sequence[Function]) -> Iterator[Function]:
    """Yield what the parts of a function jump to that never returns: it ends no call.

    g++ moves what an exception leads to elsewhere: that goes on unwinding at its end.
    """
    for part in parts:
        for target in jump_targets(elf.code(part), part.address, ("j",)):
            found = elf.function_at(target)
            if found is not None and found not in parts:
                ends = function_ends([(found.address, elf.code(found))], elf.data)
                if ends == FunctionEnds(returns=(), tail_calls=(), is_known=True):
                    yield found


def cheap_probes(
    elf: Elf,
    function: Function,
    programs: FunctionPrograms,
    style: ReturnStyle,
    cold_parts: Sequence[Function] = (),
) -> list[Probe]:
    """Return the probes in cheap places of a function, without return probes of the kernel.

    ``cold_parts``: as of ``entry_probes``. The list is empty if the function does not have all
    places that are needed.
    """
    # Imported only to make a plan: a start with cached plans does not need them.
    from sslsniff.machine_code.data_flow import Flow
    from sslsniff.machine_code.function_code import Code
    from sslsniff.machine_code.probe_pairs import arguments_in_place, find_pair

    if programs.enter is None or programs.leave is None:
        return []
    is_plain = style is not ReturnStyle.INSTRUCTIONS
    parts = [(each.address, elf.code(each)) for each in cold_parts]
    flow = Flow(Code(elf.code(function), function.address, cold_parts=parts))
    pair = find_pair(flow, arguments_in_place(programs.registers, is_plain=is_plain))
    if pair is None:
        return []
    try:
        depth = conventions.pack_depth(pair.enter.depth)
        enter = Probe(programs.enter, elf.offset(pair.enter.address), False, Cost.EMULATED, depth)
        probes = [enter, *_leave_probes(elf, pair.leaves, programs.leave)]
    except ValueError:  # its frame is too large for a cookie
        return []
    return [each._replace(convention=0) for each in probes] if is_plain else probes


def _leave_probes(elf: Elf, leaves: "Iterable[Leave]", program: str) -> Iterator[Probe]:
    for leave in leaves:
        convention = conventions.pack_leave(leave.depth, leave.condition, leave.result)
        yield Probe(program, elf.offset(leave.address), False, Cost.EMULATED, convention)


def inner_probes(
    elf: Elf, link: "Link", row: "Row", tails: Collection[int] = ()
) -> Iterator[Probe]:
    """Yield the probes of an inner function, in cheap places if it has them.

    ``tails``: the functions that it jumps to when it is done. Their returns are not included.
    Raises ``UnfitError``, and ``ValueError`` if the function's frame is too large for a cookie.
    """
    assert row.enter is not None
    assert row.leave is not None
    signature, address = link.signature, link.function.address
    if link.pair is not None:
        enter, leaves = link.pair
        at_enter = _located(signature, enter.registers)
        convention = conventions.pack_enter(enter.depth, at_enter, writes=row.writes)
        yield Probe(row.enter, elf.offset(enter.address), False, Cost.EMULATED, convention)
        yield from _leave_probes(elf, leaves, row.leave)
        return
    code = elf.code(link.function)
    site = best_site(code, address, _needed(signature), with_return=True)
    returns = return_sites(code, address, elf.data, tails)
    if site is None or returns is None:
        raise UnfitError(f"the function at {address:#x} has no places for probes")
    convention = conventions.pack_enter(0, signature, writes=row.writes)
    yield Probe(row.enter, elf.offset(site.address), False, site.cost, convention)
    for return_address in returns:
        yield Probe(row.leave, elf.offset(return_address), False, Cost.STEPPED)


def record_probe(elf: Elf, function: Function, signature: Signature, row: "Row") -> Probe:
    """Return the probe at the entry of a function that gets each record once.

    Raises ``UnfitError``.
    """
    assert row.record is not None
    site = best_site(elf.code(function), function.address, _needed(signature), with_return=False)
    if site is None:
        raise UnfitError(f"the function at {function.address:#x} has no place for a probe")
    convention = conventions.pack_enter(0, signature, writes=row.writes)
    return Probe(row.record, elf.offset(site.address), False, site.cost, convention)


def _needed(signature: Signature) -> list[str]:
    """Return the registers that a signature names."""
    kind = () if signature.kind is None else signature.kind[:1]
    return [each for each in (*signature[:3], *kind) if each is not None]


def _located(signature: Signature, registers: Mapping[str, str]) -> Signature:
    """Return a signature with its values in other registers: name of a value -> its register."""
    kind = None if signature.kind is None else (registers["kind"], signature.kind[1])
    return Signature(registers["object"], registers["buffer"], registers.get("count_pointer"), kind)
