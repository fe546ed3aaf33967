"""Finds which functions of a file without symbols refer to a text, and which call these."""

from collections.abc import Collection, Iterable

from sslsniff.elf.elf_file import Elf
from sslsniff.elf.mapped_file import FileMemory
from sslsniff.elf.symbols import Function
from sslsniff.machine_code.instructions import instruction_lines
from sslsniff.machine_code.stripped.decoded_code import DecodedCode
from sslsniff.machine_code.stripped.function_starts import FunctionStarts
from sslsniff.machine_code.stripped.path_walk import Walk
from sslsniff.machine_code.stripped.references import (
    TRANSFERS,
    AddressRange,
    Reference,
    address_forms,
    find_references,
)

_STRINGS = ".rodata"
_LONGEST_TEXT_BYTES = 256
_PRINTABLE = range(0x20, 0x7F)
_MOST_TRIED_STARTS = 12
_MOST_JUMPS_BACK = 3
_BEGINNING_BYTES = 256
_SOON_BYTES = 48
_MOST_COLD_STEPS = 200


class StrippedCode:
    """The code of ``elf``; what was found is kept.

    ``starts``: where functions begin around the addresses that were asked for.
    All methods raise ``ElfError`` if the file is damaged.
    """

    def __init__(self, elf: Elf) -> None:
        self.elf = elf
        self._code = DecodedCode(elf)
        self.starts = FunctionStarts(elf, self._code)
        self._walks: dict[int, Walk] = {}

    def texts_ending_with(self, ending: bytes) -> list[AddressRange]:
        """Return where the texts are that end with ``ending`` and a zero byte.

        Each range is from the text's beginning to that of ``ending``, inclusive: a reference may
        lead to any place there.
        """
        address = self.elf.section_address(_STRINGS)
        if address is None:
            return []
        strings = self.elf.section_region(_STRINGS)
        found = []
        for place in strings.places(ending + b"\0"):
            before = strings.read(
                max(place - _LONGEST_TEXT_BYTES, 0), min(place, _LONGEST_TEXT_BYTES)
            )
            start = len(before)
            while start and before[start - 1] in _PRINTABLE:
                start -= 1
            found.append((address + place - len(before) + start, address + place + 1))
        return found

    def places_of(self, text: bytes) -> list[AddressRange]:
        """Return where ``text`` and a zero byte are, a range of one address each.

        It may be the end of a longer text: linkers merge these.
        """
        return [(end - 1, end) for _, end in self.texts_ending_with(text)]

    def text(self, address: int) -> str | None:
        """Return the printable text at an address that a zero byte ends; None: there is none."""
        for size in (_LONGEST_TEXT_BYTES, 32, 8):
            data = self.elf.data(address, size)
            if data is not None:
                text, end, _ = data.partition(b"\0")
                is_text = end and text and all(each in _PRINTABLE for each in text)
                return text.decode("ascii") if is_text else None
        return None

    def bytes_at(self, address: int, size: int) -> bytes:
        """Return ``size`` bytes of code, or fewer at the end of a segment of code."""
        return self._code.bytes_at(address, size)

    def references_to(self, texts: list[AddressRange]) -> list[Reference]:
        """Return what looks like instructions that refer to these texts.

        The functions around them are known from then on.
        """
        found = find_references(self.elf.executable(), texts, address_forms(self.elf))
        self.starts.cover(each.address for each in found)
        return found

    def walk(self, start: int) -> Walk:
        """Return what the function that begins at ``start`` does."""
        if start not in self._walks:
            self._walks[start] = Walk(start, self._code, self.starts)
        return self._walks[start]

    def brief_walk(self, start: int, most_steps: int) -> Walk:
        """Return what the function at ``start`` does, with a problem after ``most_steps``."""
        return self._walks.get(start) or Walk(start, self._code, self.starts, most_steps)

    def owners(self, address: int) -> list[int]:
        """Return the functions that the instruction at ``address`` is in: where they begin.

        There may be several, which share a part; or none, if no path from a start leads there.
        """
        return sorted(self._owners(address, _MOST_JUMPS_BACK))

    def owners_of(self, addresses: Iterable[int]) -> dict[int, list[int]]:
        """Return the functions that these instructions are in, each with its instructions."""
        places = sorted({*addresses})
        self.starts.cover(places)
        found: dict[int, list[int]] = {}
        for place in places:
            for owner in self.owners(place):
                found.setdefault(owner, []).append(place)
        return found

    def callers(self, target: int) -> dict[int, list[int]]:
        """Return the functions that call or jump to ``target``, with the places where they do.

        ``target`` is near a text's reference.
        """
        return self.owners_of(self._places_leading_to(target))

    def brief_callers(self, target: int, then: Collection[int], most_steps: int) -> list[Walk]:
        """Return what the functions do that call ``target`` near their beginning, and then another.

        They call or jump to one of ``then`` right after that, and have no more than ``most_steps``
        on all paths together. This is much faster than ``callers``, which follows all callers.
        """
        places = [each for each in self._places_leading_to(target) if self._leads_soon(each, then)]
        self.starts.cover(places)
        found = {}
        for place in places:
            described = self.starts.described(place)
            starts = self.starts.before(place, _MOST_TRIED_STARTS)
            for start in [described.address] if described else starts:
                if place - start > _BEGINNING_BYTES:
                    break
                walk = self.brief_walk(start, most_steps)
                if place in walk.reached and walk.problem is None:
                    found[start] = walk
                    break
        return list(found.values())

    def _leads_soon(self, place: int, targets: Collection[int]) -> bool:
        """Say whether code right after a place may call or jump to one of ``targets``."""
        code = FileMemory(place, self.bytes_at(place, _SOON_BYTES))
        ranges = [(each, each + 1) for each in targets]
        return any(each.address > place for each in find_references([code], ranges, TRANSFERS))

    def _places_leading_to(self, target: int) -> list[int]:
        self.starts.cover([target])
        starts = self.starts
        return [
            place
            for found in (starts.called, starts.jumped, starts.branched)
            for place in found.get(target, ())
        ]

    def is_called(self, target: int) -> bool:
        """Say whether something calls ``target``, jumps to it, or has its address."""
        starts = self.starts
        return target in starts.called or target in starts.jumped or starts.is_pointed_to(target)

    def function(self, start: int) -> Function | None:
        """Return the function that begins at ``start``, with its length; None: it is not proved.

        Without an entry in the unwind table it ends after the last instruction that paths lead to,
        except those in parts that are elsewhere. All of these must be where instructions begin if
        the code is read from the start of their part.
        """
        described = self.starts.described(start)
        if described is not None:
            return described if described.address == start else None
        walk = self.walk(start)
        parts = walk.parts()
        if walk.problem is not None or not all(self._is_whole(each, walk) for each in parts):
            return None
        return next(each for each in parts if each.address == start)

    def _is_whole(self, part: Function, walk: Walk) -> bool:
        first, end = part.address, part.address + part.size
        code = self._code.bytes_at(first, part.size)
        read = {at: size for at, size, _, _ in instruction_lines(code, first)}
        reached = {at: size for at, size in walk.reached.items() if first <= at < end}
        # A call that seems to lead into the middle of an instruction is none.
        is_alone = not any(each in read for each in self.starts.starts if first < each < end)
        return sum(read.values()) == part.size and reached.items() <= read.items() and is_alone

    def _owners(self, address: int, most_jumps: int) -> set[int]:
        described = self.starts.described(address)
        if described is None:
            for start in self.starts.before(address, _MOST_TRIED_STARTS):
                reached = self.walk(start).reached
                # The first byte of a prefix is not in the forms of references.
                if address in reached or address - 1 in reached:
                    return {start}
            return self._owners_of_cold_place(address, most_jumps) if most_jumps else set()
        branches = self._branches_to(described) if most_jumps else []
        if described.address in self.starts.starts or not branches:
            return {described.address}
        # Nothing calls it, and conditional jumps lead there: it is a part of other functions.
        return set().union(*(self._owners(each, most_jumps - 1) for each in branches))

    def _owners_of_cold_place(self, address: int, most_jumps: int) -> set[int]:
        """Return the functions with conditional jumps to code that leads to an address."""
        targets = sorted(
            (each for each in self.starts.branched if 0 <= address - each < _BEGINNING_BYTES),
            reverse=True,
        )
        for target in targets[:_MOST_TRIED_STARTS]:
            if address in self.brief_walk(target, _MOST_COLD_STEPS).reached:
                branches = self.starts.branched[target]
                self.starts.cover(branches)
                return set().union(*(self._owners(each, most_jumps - 1) for each in branches))
        return set()

    def _branches_to(self, part: Function) -> list[int]:
        self.starts.cover([part.address])
        return [
            each
            for each in self.starts.branched.get(part.address, ())
            if not 0 <= each - part.address < part.size and self.starts.described(each)
        ]


def cold_parts(elf: Elf, functions: Iterable[Function]) -> dict[int, list[Function]]:
    """Return the parts of functions that are elsewhere, by the addresses of these functions.

    Compilers put code there that is seldom executed. Raises ``ElfError`` if the file is damaged.
    """
    code = StrippedCode(elf)
    starts = [each.address for each in functions]
    code.starts.cover(starts)
    found = {start: code.walk(start).cold_parts() for start in starts}
    return {start: parts for start, parts in found.items() if parts}
