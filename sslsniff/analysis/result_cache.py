"""Caches plans on disk: a second start need not disassemble.

An entry is valid for one unchanged file: its name has the file's device, inode, size and times of
change. A build id is not enough: anyone can write another library's into a file of their own, so
that wrong places would be stored for that library. An entry also has the separate debug file that
was wanted, and the files that were tried as it: the entry is not valid if these are others now.
"""

import contextlib
import json
import os
import stat
import zlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from sslsniff.analysis.checked_fields import (
    INVALID,
    MOST_NAME_LETTERS,
    WORD,
    number_in,
    optional_text,
    text,
    wanted_debug_file,
)
from sslsniff.elf import debug_files
from sslsniff.elf.wanted_files import WantedDebugFile
from sslsniff.libraries.supported import PLANS, SEARCHES, WITHOUT_SYMBOLS
from sslsniff.machine_code import conventions
from sslsniff.machine_code.probe_sites import Cost
from sslsniff.matching.key_log.chains import REGISTERS, Chain
from sslsniff.matching.object_layout import ObjectLayout
from sslsniff.matching.probe_set import (
    Attachment,
    KeyLog,
    KeyLogPlace,
    Probe,
    ProbedLibrary,
    Refusal,
    ReturnStyle,
    Unprobed,
)

_PACKAGE = Path(__file__).parents[1]
_PLACING = ("elf", "machine_code", "fetching", "matching", "libraries", "analysis")
_ROOT_FOLDER = Path("/var/cache/sslsniff")
# Under sudo the process becomes its caller before it reads traffic. It does not trust that user's
# entries then either: it still reads root's, but cannot write them.
_USER = os.geteuid()
_MOST_ENTRIES = 4096
_MOST_ENTRY_BYTES = 65536
_LARGEST_FIELD = 1 << 32
_MOST_LOADS = 4
_FARTHEST = 1 << 30


def folder() -> Path:
    """Return the folder of the cache, that of the user as whom sslsniff was started.

    Root's is fixed: no environment variable can name another.
    """
    if _USER == 0:
        return _ROOT_FOLDER
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".cache") / "sslsniff"


class Tried(NamedTuple):
    """The debug file that was wanted, and the ``_identity`` of each file that was tried as it."""

    wanted: WantedDebugFile | None = None
    files: tuple[tuple[int, ...], ...] = ()


_NOTHING_TRIED = Tried()


def tried(wanted: WantedDebugFile | None, offers: Iterable[debug_files.Offer] = ()) -> Tried:
    """Return what an entry says of the debug file: ``wanted``, and the ``offers`` for it."""
    return Tried(wanted, tuple(_identity(os.fstat(each.file)) for each in offers))


def load(
    path: str, status: os.stat_result, style: ReturnStyle, *, key_log: bool = False
) -> Attachment | Refusal | None:
    """Return the cached plan of the file at ``path``; None: there is no valid entry.

    ``key_log``: the plan must say where secrets can be seen.
    An entry in a wrong form is not valid, nor is one that another user could have written.
    """
    try:
        stored = json.loads(_read_private(folder(), _name(status, style, key_log=key_log)))
        if _is_outdated(_parse_tried(stored["tried"]), path, status.st_uid):
            return None
        return parse(stored, path, status.st_size)
    except (OSError, *INVALID):
        return None


def store(
    found: Attachment | Refusal,
    status: os.stat_result,
    style: ReturnStyle,
    basis: Tried = _NOTHING_TRIED,
    *,
    key_log: bool = False,
) -> None:
    """Write a plan into the cache. A failure is not reported: the cache only saves time."""
    with contextlib.suppress(OSError):
        place = folder()
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        _prune(place)
        line = json.dumps(entry(found) | {"tried": basis}, separators=(",", ":"))
        path = place / _name(status, style, key_log=key_log)
        temporary = path.with_suffix(f".{os.getpid()}")
        try:
            with open(temporary, "x", encoding="ascii", opener=_private) as file:
                file.write(line)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


def _is_outdated(basis: Tried, path: str, owner: int) -> bool:
    """Say whether there are other debug files now than those that were tried."""
    if basis.wanted is None:
        return False
    with contextlib.ExitStack() as closing:
        offers = debug_files.open_offers(path, owner, basis.wanted, closing)
        return tried(basis.wanted, offers) != basis


def _identity(status: os.stat_result) -> tuple[int, ...]:
    """Return numbers that differ between files, and change with a file."""
    return (
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _name(status: os.stat_result, style: ReturnStyle, *, key_log: bool) -> str:
    """Return the entry's name; it also changes with the plans and the release of sslsniff."""
    facts = (_code(), *_identity(status))
    kind = f"{style.value}-keylog" if key_log else style.value
    return "-".join((kind, *(f"{each:x}" for each in facts))) + ".json"


def sources(package: Path) -> list[Path]:
    """Return the source files in sslsniff's folder that decide where probes belong."""
    folders = (package / each for each in _PLACING)
    kinds = ("*.py", "*.c", "*.so")
    found = [each for folder in folders for kind in kinds for each in sorted(folder.rglob(kind))]
    return [*found, *(package / "kernel" / "probe_safety").glob("optimised_nops.py")]


@cache
def _code() -> int:
    """Return a number that changes with the code that places probes or writes entries."""
    statuses = [each.stat() for each in sources(_PACKAGE)]
    return zlib.crc32(repr([(each.st_mtime_ns, each.st_size) for each in statuses]).encode())


def _read_private(place: Path, name: str) -> bytes:
    """Return an entry; raises ``OSError`` if another user could have written it."""
    _check_private(place.lstat(), stat.S_ISDIR)
    fd = os.open(place / name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        _check_private(os.fstat(fd), stat.S_ISREG)
        return os.read(fd, _MOST_ENTRY_BYTES)
    finally:
        os.close(fd)


def _check_private(status: os.stat_result, is_kind: Any) -> None:
    if (
        not is_kind(status.st_mode)
        or status.st_uid != _USER
        or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    ):
        raise PermissionError


def entry(found: Attachment | Refusal) -> dict[str, Any]:
    """Return a plan in the form of JSON; ``parse`` is the inverse."""
    if isinstance(found, Refusal):
        return {
            "refusal": found.reason,
            "is_tls": found.is_tls,
            "remedy": found.remedy,
            "unprobed": found.unprobed,
            "debug_file": found.debug_file,
        }
    return {
        "build_id": found.build_id,
        "parts": [_library_entry(each) for each in found.parts],
        "left_out": found.left_out,
        "debug_file": found.debug_file,
        "unprobed": found.unprobed,
    }


def _library_entry(library: ProbedLibrary) -> dict[str, Any]:
    return {
        "library": library.library,
        "probes": [(*probe[:3], probe.cost.value, probe.convention) for probe in library.probes],
        # A checked layout follows from the version: it is not read from the file.
        "layout": library.layout if isinstance(library.layout, ObjectLayout) else None,
        "version": library.version,
        "tls_version": library.tls_version,
        "found_by": library.found_by,
        "key_log": library.key_log,
    }


def parse(entry: dict[str, Any], path: str, size: int) -> Attachment | Refusal:
    """Return the plan in an ``entry`` for the file at ``path``, which has ``size`` bytes.

    The entry need not be trusted: the worst that it can contain is wrong places for known probes in
    this file. Raises one of ``INVALID``.
    """
    unprobed = tuple(map(_parse_unprobed, entry["unprobed"]))
    debug_file = _text_or_none(entry["debug_file"])
    if "refusal" in entry:
        reason, remedy = _text(entry["refusal"]), _text(entry["remedy"])
        return Refusal(reason, bool(entry["is_tls"]), remedy, unprobed, debug_file)
    parts = tuple(_parse_library(each, size) for each in entry["parts"])
    if not parts:
        raise ValueError
    return Attachment(
        path=path,
        build_id=_text_or_none(entry["build_id"]),
        parts=parts,
        left_out=tuple(_text(each) for each in entry["left_out"]),
        debug_file=debug_file,
        unprobed=unprobed,
    )


def _parse_unprobed(fields: list[Any]) -> Unprobed:
    library, name, version, reason, remedy, is_runtime = fields
    return Unprobed(
        library=_text(library),
        name=_text(name),
        version=_text_or_none(version),
        reason=_text(reason),
        remedy=_text(remedy),
        is_runtime=bool(is_runtime),
    )


def _parse_tried(basis: list[Any]) -> Tried:
    wanted, files = basis
    return Tried(
        parse_wanted(wanted),
        tuple(tuple(number_in(number, -WORD, WORD) for number in each) for each in files),
    )


def parse_wanted(wanted: Any) -> WantedDebugFile | None:
    """Return which debug file is wanted, if any; raises one of ``INVALID``."""
    return None if wanted is None else wanted_debug_file(wanted)


def _parse_library(entry: dict[str, Any], size: int) -> ProbedLibrary:
    library = _text(entry["library"])
    programs = _programs(library)
    probes = []
    for program, offset, is_return, cost, convention in entry["probes"]:
        if program not in programs or program is None or not isinstance(is_return, bool):
            raise ValueError
        place = _number(offset, size)
        packed = _number(convention, 1 << conventions.BITS)
        probes.append(Probe(program, place, is_return, Cost(cost), packed))
    if not probes:
        raise ValueError
    search = SEARCHES.get(library)
    if search is None or search.remake is None:
        return ProbedLibrary(
            library,
            tuple(probes),
            _parse_layout(entry["layout"]),
            _text_or_none(entry["version"]),
            found_by=_text_or_none(entry["found_by"]),
            key_log=_parse_key_log(entry["key_log"], size),
        )
    tls_version = entry["tls_version"]
    number = None if tls_version is None else _number(tls_version, 1 << 16)
    made = search.remake(_text(entry["version"]), number, probes)
    return made._replace(key_log=_parse_key_log(entry["key_log"], size))


def _parse_key_log(entry: Any, size: int) -> KeyLog | None:
    if entry is None:
        return None
    places, missing = entry
    return KeyLog(tuple(_parse_place(*each, size=size) for each in places), _text(missing))


def _parse_place(
    offset: Any, label: Any, label_size: Any, random: Any, secret: Any, length: Any, *, size: int
) -> KeyLogPlace:
    return KeyLogPlace(
        _number(offset, size),
        _parse_chain(*label),
        None if label_size is None else _parse_chain(*label_size),
        _parse_chain(*random),
        _parse_chain(*secret),
        _parse_chain(*length),
    )


def _parse_chain(register: Any, loads: Any, add: Any) -> Chain:
    if register not in REGISTERS or len(loads) > _MOST_LOADS:
        raise ValueError
    return Chain(str(register), tuple(map(_distance, loads)), _distance(add))


def _distance(value: Any) -> int:
    return number_in(value, -_FARTHEST, _FARTHEST)


def _programs(library: str) -> set[str | None]:
    """Return the BPF programs that a library's probes can be of."""
    if library in SEARCHES:
        return {*SEARCHES[library].programs()}
    plans = [each for each in (*PLANS, *WITHOUT_SYMBOLS.values()) if each.library == library]
    rows = [row for plan in plans for group in plan.required for each in group for row in each]
    rows += [row for plan in plans for row in plan.optional]
    if not rows:
        raise ValueError
    return {each for row in rows for each in (row.enter, row.leave, row.record)}


def _parse_layout(fields: list[Any]) -> ObjectLayout:
    return ObjectLayout(
        **{
            name: None if value is None else _number(value, _LARGEST_FIELD)
            for name, value in zip(ObjectLayout._fields, fields, strict=True)
        }
    )


def _number(value: Any, limit: int) -> int:
    return number_in(value, 0, limit)


def _text(value: Any) -> str:
    return text(value, MOST_NAME_LETTERS)


def _text_or_none(value: Any) -> str | None:
    return optional_text(value, MOST_NAME_LETTERS)


def _prune(place: Path) -> None:
    names = os.listdir(place)  # noqa: PTH208 - takes a tenth of the time of Path.iterdir
    if len(names) >= _MOST_ENTRIES:
        entries = sorted(map(place.joinpath, names), key=lambda each: each.stat().st_mtime)
        for each in entries[: _MOST_ENTRIES // 4]:
            each.unlink(missing_ok=True)
