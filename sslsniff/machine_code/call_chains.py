"""Finds the inner functions to which public ones pass a read or a write (x86-64).

Problem. A probe is cheap only on an instruction that the kernel emulates (``probe_sites``). A
public function may have no such instruction where its arguments or its result are known.
``SSL_read_ex`` and ``SSL_write_ex`` of OpenSSL have none after the call that does their work.
Functions that they call have some (docs/sites.md), but these functions have no symbols.

Facts that make the search possible:

- A public function passes its own call on. It calls an inner function with its own object, its own
  buffer and a pointer to the count, and returns that function's result. The System V ABI fixes the
  registers of arguments and result. Data flow tells which registers have the caller's own values.
- ``SSL_read`` has no pointer to a count: its result is the count. It passes the address of a local
  variable instead, and returns the variable. ``call_steps`` knows both forms.
- An OpenSSL object points to a table of methods (``SSL_METHOD``), and some calls go through it.
  Then the function at the same offset in each table is followed (``method_tables``).
- With SSL_MODE_ASYNC a job gets the method's address in a structure, and calls it later. The call
  that starts the job counts as a call of the method.

Why simpler ways fail. With probes on the return instructions of the public functions, each hit is
single-stepped. The internal function that all public ones call may be inlined (Node.js). Offsets of
inner functions differ between releases and builds. If all calls that get the object counted,
handshakes and peeks would appear as data.

The search starts at the public functions, and follows each call that passes the own call on. It
stops at a function with cheap places (``probe_pairs``), and at one that does work itself. Such an
end is a ``Link``. These rules hold for the result, or ``UnfollowedError`` is raised:

- No success is missed. Each success of a function on the way comes from calls that are followed. A
  function for which this is not proved is an end. A public function cannot be an end.
- No success is seen twice. If the calls of one end lead to another end, the outer one is followed
  too, and the search is repeated (``_leads_on``).
- All callers pass object, buffer and pointer to the count in the same registers. These are known
  only when all callers are, so the search is repeated until nothing changes: 16 rounds at most.
- Calls for other purposes do not count. One constant argument tells them apart, the ``kind`` of a
  signature; a function with several is refused. ``others``, such as ``SSL_peek``, are followed,
  too. They must not come to an end without another value there.

Example: reads of Debian's OpenSSL 3.0 (tests/unit/machine_code/test_call_chains.py).

    SSL_read(rdi, rsi)      SSL_read_ex(rdi, rsi, rcx)
            |                        |
    ssl_read_internal(rdi, rsi, rcx)        rcx: the pointer to the count
            |  through the object's table of methods
    ssl3_read(rdi, rsi, rcx)
            |  fourth argument 0; SSL_peek comes with 1
    ssl3_read_internal(rdi, rsi, r8)        probed; only calls with 0 in rcx count

In Node.js the end is ``ssl3_read``, which has cheap places there. For writes, ``ssl3_write_bytes``
gets a record's content type (RFC 8446, section 5.1): 23 for application data, 22 for a handshake.

Limits:

- Calls are followed if they are direct or go through a table of methods. A function that passes its
  call on through any other pointer is an end.
- Callers that are neither roots nor ``others`` are not searched. Only the kind tells them apart.
- A ``Link`` may have no cheap places. ``matching.fitting`` allows this only beside the links to
  which a table of TLS over TCP leads: for DTLS and QUIC.
- A probe at a link needs an attach cookie (Linux 5.15). If this way is not taken, the plan of the
  library has others (``libraries.openssl.plan``).

Sources: System V ABI, AMD64 supplement, section 3.2. OpenSSL 1.1.1 to 4.0: ``ssl_read_internal``
exists since 1.1.1; since 3.3 flags come before the count in ``ssl_write_internal``.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from sslsniff.elf.elf_file import Elf
from sslsniff.elf.symbols import Function
from sslsniff.machine_code.call_steps import FunctionBody, Step, body_of
from sslsniff.machine_code.callers import arguments
from sslsniff.machine_code.conventions import Signature
from sslsniff.machine_code.instructions import ARGUMENTS
from sslsniff.machine_code.known_values import MemoryField
from sslsniff.machine_code.method_tables import MethodTables
from sslsniff.machine_code.probe_pairs import Pair

_MOST_ROUNDS = 16


class UnfollowedError(Exception):
    """Calls cannot be followed further; the text says where."""


class Link(NamedTuple):
    """An inner function that does the work of public ones.

    ``signature``: how it is called.
    ``is_usual``: it is for TLS over TCP, by its table of methods.
    ``pair``: its cheap places for probes; None: it has none.
    """

    function: Function
    signature: Signature
    is_usual: bool
    pair: Pair | None


class CallChains:
    """Follows calls in a file.

    ``find_called``: returns the function that a call of an address reaches, perhaps through a stub.

    Raises ``ElfError`` if the file is damaged.
    """

    def __init__(self, elf: Elf, find_called: Callable[[int], Function | None]) -> None:
        self._elf = elf
        self._find_called = find_called
        self._tables = MethodTables(elf)
        self._functions: dict[int, Function] = {}
        self._bodies: dict[int, FunctionBody] = {}

    def follow(self, roots: Mapping[str, Signature], others: Mapping[str, Signature]) -> list[Link]:
        """Return the inner functions that do the work of those public ``roots`` that the file has.

        ``others``: public functions whose calls must not count. Raises ``UnfollowedError``.
        """
        try:
            return self._follow(roots, others)
        finally:
            for body in self._bodies.values():
                body.forget_flow()

    def _follow(
        self, roots: Mapping[str, Signature], others: Mapping[str, Signature]
    ) -> list[Link]:
        starts = self._named(roots)
        opened = set(starts)
        while True:
            links = self._reach(starts, opened)
            outer = {each for each in links if self._leads_on(each, links)}
            if not outer:
                break
            opened |= outer  # probes in these would see calls twice
        self._check_others(others, links)
        return list(links.values())

    def _named(self, roots: Mapping[str, Signature]) -> dict[int, Signature]:
        found: dict[int, Signature] = {}
        for name, signature in roots.items():
            function = self._elf.function(name)
            if function is not None:
                self._functions[function.address] = function
                found[function.address] = signature
        return found

    def _check_others(self, others: Mapping[str, Signature], links: Mapping[int, Link]) -> None:
        """Raise ``UnfollowedError`` if calls of ``others`` reach ``links`` with the same kind."""
        waiting = list(self._named(others).items())
        seen = set(waiting)
        while waiting:
            outer, signature = waiting.pop()
            for step in self._body(outer).steps(signature)[0]:
                for inner, _ in self._targets(step.to):
                    called = self._signature(step, inner, signature)
                    if inner in links and not _differs_in_kind(called, links[inner].signature):
                        raise UnfollowedError(f"calls of {inner:#x} are not all of one kind")
                    if inner not in links and (inner, called) not in seen:
                        seen.add((inner, called))
                        waiting.append((inner, called))

    def _reach(self, starts: dict[int, Signature], opened: set[int]) -> dict[int, Link]:
        """Return the links by address; a function in ``opened`` is followed, and is no link itself.

        This repeats until nothing changes: the signature of a function is known only when all its
        callers are.
        """
        known = dict(starts)
        usual: set[int] = set()
        for _ in range(_MOST_ROUNDS):
            usual_before = usual.copy()
            found = {address: [signature] for address, signature in starts.items()}
            links: dict[int, Link] = {}
            for address, signature in known.items():
                is_usual = address in usual
                body = self._body(address)
                pair = None if address in opened else body.pair(signature)
                if pair is not None or not (address in opened or body.steps(signature)[1]):
                    links[address] = Link(self._functions[address], signature, is_usual, pair)
                    continue
                for inner, called, is_of_tls in self._inner(address, signature):
                    found.setdefault(inner, []).append(called)
                    if is_of_tls or (is_of_tls is None and is_usual):
                        usual.add(inner)
            merged = {address: _merged(each) for address, each in found.items()}
            if merged == known and usual == usual_before:
                return links
            known = merged
        raise UnfollowedError("calls lead on and on")

    def _inner(
        self, address: int, signature: Signature
    ) -> Iterator[tuple[int, Signature, bool | None]]:
        """Yield the functions to which a function passes its calls on.

        Each with its signature, and whether it is in a table of TLS; None: in no table.
        """
        steps, is_complete = self._body(address).steps(signature)
        if not is_complete:
            raise UnfollowedError(f"the function at {address:#x} does not hand all calls on")
        for step in steps:
            for inner, is_of_tls in self._targets(step.to):
                yield inner, self._signature(step, inner, signature), is_of_tls

    def _targets(self, to: int | MemoryField) -> Iterator[tuple[int, bool | None]]:
        """Yield the functions that a call reaches, and whether by a table of TLS; None: by none."""
        addresses: Mapping[int, bool | None]
        if isinstance(to, int):
            function = self._find_called(to)
            addresses = {} if function is None else {function.address: None}
        else:
            addresses = self._tables.at(to.offset)
        if not addresses:
            raise UnfollowedError("a call leads to what is no function of the file")
        for address, is_of_tls in addresses.items():
            found = self._elf.function_at(address)
            if found is None:
                raise UnfollowedError(f"there is no function at {address:#x}")
            self._functions[address] = found
            yield address, is_of_tls

    def _signature(self, step: Step, inner: int, outer: Signature) -> Signature:
        """Return the signature of an inner function. It has one kind at most, the outermost."""
        if step.kind is not None and outer.kind is not None:
            return step.signature._replace(kind=(step.kind, outer.kind[1]))
        last = max(ARGUMENTS.index(each) for each in step.signature[:3] if each is not None)
        numbers = {
            name: value
            for name, value in step.constants.items()
            if ARGUMENTS.index(name) <= last or name in self._read(inner)
        }
        if len(numbers) > 1:
            raise UnfollowedError(f"calls of {inner:#x} have several kinds")
        return step.signature._replace(kind=next(iter(numbers.items()), None))

    def _read(self, address: int) -> frozenset[str]:
        """Return the arguments that a function reads."""
        return arguments(self._elf.code(self._functions[address]), address)

    def _leads_on(self, address: int, links: dict[int, Link]) -> bool:
        """Say whether a function's calls reach another of ``links``: they would count twice.

        Raises ``UnfollowedError``.
        """
        waiting = [(address, links[address].signature)]
        seen = {address}
        while waiting:
            outer, signature = waiting.pop()
            for step in self._body(outer).steps(signature)[0]:
                for inner, _ in self._targets(step.to):
                    if inner in seen:
                        continue
                    if inner in links:
                        return True
                    seen.add(inner)
                    waiting.append((inner, step.signature))
        return False

    def _body(self, address: int) -> FunctionBody:
        if address not in self._bodies:
            code = self._elf.code(self._functions[address])
            self._bodies[address] = body_of(code, address)
        return self._bodies[address]


def _differs_in_kind(other: Signature, own: Signature) -> bool:
    """Say whether the kind of ``other`` has another value than in ``own``, the calls that count."""
    return (
        other.kind is not None
        and own.kind is not None
        and other.kind[0] == own.kind[0]
        and other.kind[1] != own.kind[1]
    )


def _merged(signatures: list[Signature]) -> Signature:
    """Return what is the same in all signatures of a function. Raises ``UnfollowedError``."""
    first, *others = signatures
    for each in others:
        if each[:3] != first[:3]:
            raise UnfollowedError("a function is called in several ways")
        if each.kind != first.kind:
            first = first._replace(kind=None)
    return first
