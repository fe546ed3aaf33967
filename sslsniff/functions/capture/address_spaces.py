"""Which file's code is at an address of a process, also after the process has ended."""

import contextlib
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable
from pathlib import PurePath
from typing import NamedTuple

from sslsniff.core.errors import ElfError, KernelError
from sslsniff.functions.workers.file_reader import MOST_WORKERS, FileReaders, UnreadFileError
from sslsniff.functions.workers.read_code import LACK_FUNCTIONS, ReadCode
from sslsniff.kernel import procfs
from sslsniff.kernel.mapping_events import Mappings
from sslsniff.kernel.procfs import CodeMapping, MappedFile

_MOST_PROCESSES = 4096
_MOST_MAPPINGS = 16_384
"""Of one process: more are not looked through."""
_MOST_UNKNOWN = 4096
"""Addresses of a process that no file has, after which maps is not read again for each."""
_DELETED = " (deleted)"


class CodeLocation(NamedTuple):
    """Code at an address: ``file`` None: it has none that can be read.

    ``name``: of the file, or ``[vdso]``; "" unknown. ``address``: as linked, if there is a file.
    """

    file: ReadCode | None
    name: str
    address: int


class _AddressSpace:
    """The executable memory of a process, by address."""

    def __init__(self, mappings: list[CodeMapping]) -> None:
        self.mappings = mappings[:_MOST_MAPPINGS]
        self.unknown: set[int] = set()

    @property
    def is_empty(self) -> bool:
        return not self.mappings

    def find(self, address: int) -> CodeMapping | None:
        at = bisect_right(self.mappings, address, key=lambda each: each.start) - 1
        found = self.mappings[at] if at >= 0 else None
        return found if found and address < found.end else None

    def add(self, new: CodeMapping) -> None:
        """Add what was mapped: it replaces what was there."""
        kept = [each for each in self.mappings if each.end <= new.start or new.end <= each.start]
        self.mappings = sorted([*kept, new])[:_MOST_MAPPINGS]
        self.unknown.clear()


class AddressSpaces:
    """The code of processes; a context manager, which is entered before they start or are traced.

    The kernel reports what they map from then on; what they had mapped before is in /proc.
    ``readers``: look into the files. ``report``: called with a line on what is not looked into.
    """

    def __init__(self, readers: FileReaders, report: Callable[[str], None]) -> None:
        self._readers = readers
        self._report = report
        self._spaces: OrderedDict[int, _AddressSpace] = OrderedDict()
        self._files: dict[tuple[str, int, int], ReadCode | None] = {}
        self._is_full_reported = False
        self._closing = contextlib.ExitStack()
        self._reports: Mappings | None = None

    def __enter__(self) -> "AddressSpaces":
        """Begin to read reports; without the right to do so, only what /proc has is known."""
        with contextlib.suppress(KernelError):
            self._reports = Mappings()
            self._closing.callback(self._reports.close)
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def update(self) -> None:
        """Read what was reported; to be called often, as there is room for some thousands."""
        for mapped in self._reports.read() if self._reports else ():
            if mapped.is_visible:
                start, end = (int(each, 16) for each in mapped.file.addresses.split("-"))
                new = CodeMapping(start, end, mapped.offset, mapped.file, mapped.file.path)
                self._space(mapped.pid).add(new)

    def _space(self, pid: int) -> _AddressSpace:
        space = self._spaces.get(pid)
        if space is None:
            space = self._spaces[pid] = _AddressSpace(procfs.code_mappings(pid))
            if len(self._spaces) > _MOST_PROCESSES:
                self._spaces.popitem(last=False)
        else:
            self._spaces.move_to_end(pid)
        return space

    def find(self, pid: int, address: int) -> CodeLocation:
        """Return what code is at an address of a process."""
        mapping = self._space(pid).find(address) or self._find_new(pid, address)
        if mapping is None:
            return CodeLocation(None, "", address)
        name = PurePath(mapping.name.removesuffix(_DELETED)).name
        opened = self._opened(pid, mapping.file) if mapping.file else None
        if opened is not None:
            offset = address - mapping.start + mapping.offset
            for part in opened.parts:
                if 0 <= offset - part.offset < part.size:
                    return CodeLocation(opened, name, offset - part.offset + part.address)
        return CodeLocation(None, name, address)

    def _find_new(self, pid: int, address: int) -> CodeMapping | None:
        """Look for an unknown address in what was mapped meanwhile."""
        self.update()
        space = self._space(pid)
        found = space.find(address)
        if found is not None or address in space.unknown or len(space.unknown) >= _MOST_UNKNOWN:
            return found
        mappings = procfs.code_mappings(pid)
        if not mappings and space.is_empty:
            mappings = self._mappings_of_parent(address)
        if mappings:
            unknown = space.unknown
            space = self._spaces[pid] = _AddressSpace(mappings)
            space.unknown = unknown
        found = space.find(address)
        if found is None:
            space.unknown.add(address)
        return found

    def _mappings_of_parent(self, address: int) -> list[CodeMapping]:
        """Return what a process has mapped that has ended, and had mapped nothing itself.

        It is a child, with the memory of its parent: the last process with code at ``address``, as
        others have theirs at random addresses. Nothing if there is none.
        """
        for each in reversed(self._spaces.values()):
            if each.find(address) is not None:
                return each.mappings
        return []

    def _opened(self, pid: int, file: MappedFile) -> ReadCode | None:
        """Return the code of a file; None: it cannot be read."""
        key = file.path, file.device, file.inode
        if key not in self._files:
            self._files[key] = self._open(pid, file)
        return self._files[key]

    def _is_full(self) -> bool:
        """Say whether no more files are looked into; report that once."""
        if self._readers.is_full and not self._is_full_reported:
            self._is_full_reported = True
            fact = f"more than {MOST_WORKERS} files have code in them"
            self._report(f"{LACK_FUNCTIONS}: {fact}: trace fewer programs")
        return self._readers.is_full

    def _open(self, pid: int, file: MappedFile) -> ReadCode | None:
        path = procfs.reported_file_path(pid, file)
        if path is None or self._is_full():
            return None
        try:
            reader = self._readers.open(path)
        except UnreadFileError as error:
            self._report(f"{LACK_FUNCTIONS}: {error}")
            return None
        except ElfError:
            return None
        name = PurePath(file.path.removesuffix(_DELETED)).name
        return ReadCode(reader, name, self._report)
