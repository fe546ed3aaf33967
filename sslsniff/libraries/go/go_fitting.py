"""The probes for Go's crypto/tls in a program."""

from sslsniff.core.errors import ElfError
from sslsniff.elf.elf_file import Elf
from sslsniff.elf.symbols import Function
from sslsniff.libraries.go import plan as go_tls
from sslsniff.libraries.go.function_table import GoFunctions
from sslsniff.libraries.go.memory import WORD_BYTES, Memory
from sslsniff.libraries.go.places import GoPlace, after_copy, at_entry
from sslsniff.libraries.go.plan import GoRow
from sslsniff.libraries.go.programs import has_crypto_tls, release
from sslsniff.libraries.go.types import pointer_hash, struct_fields
from sslsniff.libraries.go.unprobed import UNPROBED
from sslsniff.machine_code import conventions
from sslsniff.machine_code.data_flow import Flow
from sslsniff.machine_code.function_code import Code
from sslsniff.machine_code.probe_sites import Cost
from sslsniff.matching.library import Found
from sslsniff.matching.object_layout import ObjectLayout
from sslsniff.matching.probe_set import (
    Probe,
    ProbedLibrary,
    ReturnStyle,
    ReturnStyleError,
    UnfitError,
    Unprobed,
)


def fit_go(elf: Elf, style: ReturnStyle) -> Found:
    """Return the part of a file that is Go's crypto/tls, or why it has no probes.

    Neither where the file has none of it. Raises ``ElfError`` if it is damaged.
    """
    if not has_crypto_tls(elf):
        return Found([], [], [])
    version = release(elf)
    try:
        if style is not ReturnStyle.INSTRUCTIONS:
            raise ReturnStyleError
        fitting = _GoFitting(elf)
        probes = [each for row in go_tls.ROWS for each in fitting.place(row)]
        layout = fitting.layout()
    except ReturnStyleError as unfit:
        return Found([], [], [_unprobed(version, unfit, unfit.remedy)])
    except (UnfitError, ElfError) as error:
        return Found([], [], [_unprobed(version, error, UNPROBED.remedy)])
    return Found([ProbedLibrary(go_tls.LIBRARY, tuple(probes), layout, version)], [], [])


def _unprobed(version: str | None, why: Exception, remedy: str) -> Unprobed:
    return Unprobed(UNPROBED.library, UNPROBED.name, version, str(why), remedy)


class _GoFitting:
    """Finds places in one program."""

    def __init__(self, elf: Elf) -> None:
        self._elf = elf
        self._memory = Memory(elf)
        self._functions = GoFunctions(self._memory)

    def place(self, row: GoRow) -> list[Probe]:
        """Return a row's probes, none where there is no such function; raises ``UnfitError``."""
        function = self._functions.function(row.function)
        if function is None:
            return []
        if row.caller is not None and function.address not in self._called(row.caller):
            raise UnfitError(f"{row.function} is inlined into {row.caller}")
        flow = self._flow(function)
        arguments = [flow.convention.arguments[number] for number in row.arguments]
        if row.with_result:
            found_copies = map(self._functions.function, go_tls.COPIES)
            places = after_copy(flow, arguments, {each.address for each in found_copies if each})
        else:
            kind = None if row.kind is None else flow.convention.arguments[row.kind]
            found = at_entry(flow, arguments, kind)
            places = [] if found is None else [found]
        if not places and row.is_required:
            raise UnfitError(f"{row.function} has no place for a probe")
        return [self._probe(row.program, each) for each in places]

    def _probe(self, program: str, place: GoPlace) -> Probe:
        try:
            how = conventions.pack_values(place.condition, place.values)
        except ValueError as error:
            raise UnfitError(f"{program}: {error}") from error
        cost = Cost.EMULATED if place.is_emulated else Cost.STEPPED
        return Probe(program, self._elf.offset(place.address), False, cost, how)

    def _flow(self, function: Function) -> Flow:
        code = self._elf.code(function)
        convention = go_tls.convention(code)
        if convention is None:
            raise UnfitError(f"the function at {function.address:#x} does not begin as Go's do")
        fatal = filter(self._is_fatal, Code(code, function.address).called)
        return Flow(Code(code, function.address, fatal), convention)

    def _called(self, name: str) -> set[int]:
        """Return the functions that the one called ``name`` calls."""
        function = self._functions.function(name)
        if function is None:
            return set()
        return Code(self._elf.code(function), function.address).called

    def _is_fatal(self, address: int) -> bool:
        name = self._functions.name_at(address)
        return name is not None and name.startswith(go_tls.FATAL)

    def layout(self) -> ObjectLayout:
        """Return where a ``tls.Conn`` keeps what, as far as the program says."""
        fields = struct_fields(self._memory, "conn", *go_tls.FIELDS)
        if not fields:
            return ObjectLayout()
        known = {fields["conn"].type: "*net.Conn", fields["config"].type: "*tls.Config"}
        name, protocol = fields["serverName"].offset, fields["clientProtocol"].offset
        return ObjectLayout(
            client=fields["isClient"].offset,
            version=fields["vers"].offset,
            alpn=protocol,
            alpn_length=protocol + WORD_BYTES,
            sni=name,
            sni_length=name + WORD_BYTES,
            handshakes=fields["handshakes"].offset,
            socket_type=pointer_hash(self._memory, "*net.TCPConn", known),
            handshake_error=fields["handshakeErr"].offset,
            read_error=fields["in"].offset + go_tls.ERROR_IN_HALF,
        )
