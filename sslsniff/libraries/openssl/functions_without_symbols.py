"""Finds the functions of OpenSSL 1.1.1 to 4.0 in a program without symbols.

All reads pass ``ssl_read_internal(ssl, buffer, size, count)``, all writes ``ssl_write_internal``,
which has flags before the count since 3.3. Its errors have its name (``named_errors``). A compiler
may inline it into ``SSL_read``, ``SSL_read_ex`` and others, and keep a copy: then all of these have
the name, and each sees calls that the others do not. All but ``SSL_read`` itself get the arguments
of the internal function.
"""

from collections.abc import Iterator

from sslsniff.elf.elf_file import Elf
from sslsniff.elf.symbols import Function
from sslsniff.libraries.openssl.freeing import find_free
from sslsniff.libraries.openssl.named_errors import (
    NamedError,
    find_named_errors,
    owners_of_names,
)
from sslsniff.libraries.openssl.named_fields import NAMES, read_openssl_fields
from sslsniff.machine_code.known_values import Argument, Number, Stack
from sslsniff.machine_code.stripped.path_walk import WalkedCall
from sslsniff.machine_code.stripped.stripped_code import StrippedCode
from sslsniff.matching.stripped.error_calls import NoErrorsError
from sslsniff.matching.stripped.evidence import BUFFER, OBJECT, FoundSsl, SslFunction, hex_list

LIBRARY = "openssl"
WITH_FLAGS = " with flags"
"""What the name of ``ssl_write_internal(ssl, buffer, size, flags, count)`` ends with: since 3.3."""

_PAIRS = (("SSL_read", "ssl_read_internal"), ("SSL_write", "ssl_write_internal"))
_MAKERS = ("SSL_new", "ossl_ssl_connection_new_int")
"""The second exists since 3.2: objects begin with a type since then, as those of QUIC have one."""
_OTHERS = ("SSL_do_handshake", "SSL_shutdown", *_MAKERS, "SSL_sendfile")
_SMALL = frozenset({"ssl_start_async_job"})
"""Functions of the source that others call, and that compilers inline."""


def find_openssl_functions(elf: Elf) -> FoundSsl:
    """Find the functions of OpenSSL in a file; raises ``ElfError`` if it is damaged.

    What an internal function is inlined into has a name such as "ssl_read_internal in SSL_read", or
    "ssl_read_internal (2)".
    """
    code = StrippedCode(elf)
    try:
        calls, errors = find_named_errors(code)
    except NoErrorsError as error:
        return FoundSsl(LIBRARY, None, (), str(error))
    owners = _NameOwners(code, errors)
    findings = [each for pair in _PAIRS for each in owners.pair(*pair)]
    findings += [owners.other(name) for name in _OTHERS if owners.of(name)]
    free, references = find_free(code, [each for each in findings if each.name in _MAKERS])
    users = owners_of_names(code, calls.raise_function, NAMES)
    layout = read_openssl_fields(code, users)._replace(
        references=references, is_typed=1 if owners.of(_MAKERS[1]) else None
    )
    return FoundSsl(LIBRARY, calls, (*findings, free), None, layout)


class _NameOwners:
    """The functions that have errors with the names of the source's functions."""

    def __init__(self, code: StrippedCode, errors: tuple[NamedError, ...]) -> None:
        self._code = code
        self._lines: dict[str, dict[int, set[int]]] = {}
        for each in errors:
            self._lines.setdefault(each.name, {}).setdefault(each.owner, set()).add(each.line)

    def of(self, name: str) -> list[int]:
        """Return the functions with errors of the source's function ``name``, by address."""
        return sorted(self._lines.get(name, {}))

    def pair(self, name: str, internal: str) -> Iterator[SslFunction]:
        """Yield a public function, and all functions that have the internal one's errors."""
        public, inner = self.of(name), self.of(internal)
        if len(public) != 1 or not inner:
            yield self._absent(name)
            return
        [address] = public
        copies = [each for each in inner if each != address]
        if address in inner:
            yield from self._public_with_inlined(name, internal, address, copies)
        else:
            yield self._public(name, internal, address, copies)
        for number, each in enumerate(copies, 1):
            found = self._copy(internal, each, inner)
            yield found if number == 1 else found._replace(name=f"{found.name} ({number})")

    def other(self, name: str) -> SslFunction:
        """Return another public function: the one that calls a method of its own object."""
        found = self.of(name)
        if len(found) > 1:
            found = [each for each in found if self._calls_own_method(each)]
        if len(found) != 1:
            return self._absent(name)
        return self._finding(name, found[0], name, [])

    def _public(self, name: str, internal: str, address: int, copies: list[int]) -> SslFunction:
        """Return a function that hands its arguments on to one of ``copies``."""
        calls = [
            each
            for each in self._code.walk(address).calls
            if each.target in copies
            and each.argument("rdi") == OBJECT
            and each.argument("rsi") == BUFFER
        ]
        counts = {(each.target, _count_register(each)) for each in calls}
        if len(counts) != 1 or None in (found := counts.pop()):
            reason = f"it hands its object, its buffer and a count to no function of {internal}"
            return self._finding(name, address, name, [], against=[reason])
        proof = f"it hands its object, its buffer and in {found[1]} a count to {found[0]:#x}"
        return self._finding(name, address, name, [proof])

    def _public_with_inlined(
        self, name: str, internal: str, address: int, copies: list[int]
    ) -> Iterator[SslFunction]:
        hands = any(each.argument("rsi") == BUFFER for each in self._code.walk(address).calls)
        against = [] if hands else ["it hands its buffer to no function"]
        against += self._nested(address, copies)
        proof = f"{internal} is inlined in it"
        found = self._finding(name, address, name, [proof], against, inlined=internal)
        yield found
        yield found._replace(name=f"{internal} in {name}")

    def _copy(self, internal: str, address: int, owners: list[int]) -> SslFunction:
        """Return a function that gets the arguments of the internal one."""
        count = self._count(address)
        against = [] if count else ["it hands no count on with its buffer"]
        against += self._nested(address, [each for each in owners if each != address])
        name = internal + (WITH_FLAGS if count == "r8" else "")
        proof = f"it hands its buffer on, with its {count} as the place of the count"
        return self._finding(name, address, internal, [proof] if count else [], against)

    def _nested(self, address: int, others: list[int]) -> list[str]:
        """Return why a call would be seen twice: in this function, and in one of ``others``."""
        targets = {each.target for each in self._code.walk(address).calls}
        called = [each for each in others if each in targets]
        return [f"it calls others with this name ({hex_list(called)})"] if called else []

    def _count(self, address: int) -> str | None:
        """Return the argument register that a function hands on as the place of a count.

        It calls ``ssl->method->ssl_read(ssl, buffer, size, count)``. Functions of QUIC get flags in
        that place: so the register after them counts, if it is handed on there.
        """
        counts = {
            each.argument("rcx")
            for each in self._code.walk(address).calls
            if each.argument("rsi") == BUFFER
        }
        return next((each for each in ("r8", "rcx") if Argument(each) in counts), None)

    def _calls_own_method(self, address: int) -> bool:
        return any(
            each.target is None and each.argument("rdi") == OBJECT
            for each in self._code.walk(address).calls
        )

    def _absent(self, name: str) -> SslFunction:
        found = self.of(name)
        where = f"its name is in the errors of {len(found)} functions ({hex_list(found)})"
        return SslFunction(name, None, against=(where,))

    def _finding(
        self,
        name: str,
        address: int,
        said: str,
        proofs: list[str],
        against: list[str] | None = None,
        inlined: str = "",
    ) -> SslFunction:
        """Return a finding; ``said``: its name in errors. What speaks against any is added."""
        lines = ", ".join(map(str, sorted(self._lines[said][address])))
        against = against or []
        function = self._code.function(address)
        if function is None:
            against.append("where it ends is not proved")
        problem = self._code.walk(address).problem
        if problem is not None:
            against.append(f"not all of its paths can be followed: {problem}")
        others = sorted(
            each
            for each, owners in self._lines.items()
            if address in owners and each not in {said, inlined, *_SMALL}
        )
        against += [f"it has errors with the name {each}, too" for each in others]
        proofs = [f'its errors have the name "{said}" (lines {lines})', *proofs]
        shown = function or Function(address, 0)
        cold_parts = tuple(self._code.walk(address).cold_parts())
        return SslFunction(name, shown, (), tuple(proofs), tuple(against), cold_parts)


def _count_register(call: WalkedCall) -> str | None:
    """Return the register with the place of the count in a call of an internal function."""
    if isinstance(call.argument("rcx"), Stack):
        return "rcx"
    if call.argument("rcx") == Number(0) and isinstance(call.argument("r8"), Stack):
        return "r8"
    return None
