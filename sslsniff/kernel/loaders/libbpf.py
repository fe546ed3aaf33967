"""The CO-RE loader: the prebuilt object through ``libbpf.so.1`` (1.0 or newer), by ctypes."""

import contextlib
import ctypes
import errno
import functools
import os
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from ctypes import POINTER, Structure, byref, c_bool, c_char_p, c_int, c_size_t, c_uint64, c_void_p
from itertools import chain
from pathlib import Path
from typing import Any

from sslsniff.core.errors import KernelError, LoaderError, PrivilegeError, SslsniffError
from sslsniff.kernel import privileges, procfs, release
from sslsniff.kernel.loaders import uprobe_multi
from sslsniff.kernel.loaders.library_errors import library_error
from sslsniff.kernel.loaders.loader import (
    Detach,
    refused_entry,
    refused_place,
    refused_probe,
    signals_blocked,
)
from sslsniff.kernel.probe_safety.place_check import check_places

OBJECT = Path(__file__).parents[2] / "bpf" / "sslsniff.bpf.o"

_MOST_KEY_BYTES = 64

_UPROBE_SECTIONS = (b"uprobe", b"uprobe.s")  # the second: of programs that may sleep
_SOCKET_KPROBES = ("tcp_sent", "tcp_received")
_HOLDING = ("hold_file", "hold_mapping", "hold_program")
_FUNCTIONS = "function_"  # each is loaded by itself: kernels before 5.15 have none, before 6.1 few
_LATER = (
    ("go_",),
    ("boringssl_",),
    ("gnutls_", "nss_", "c_record_", "c_alert_"),
    ("rustls_",),
    ("c_list_", "c_write_list_"),
    ("stdio_",),
)
"""How names of programs begin that are loaded together, when a file, or an option, needs one of
them: the verifier takes 110 ms for all, and most processes need none. Each group takes 20 ms or
more beside the verifier, as libbpf reads the kernel's BTF again; each program of a group takes 2.
GnuTLS and NSS are one group: where the whole host is watched, both are often there."""

_PROG_TYPE_KPROBE = 2  # include/uapi/linux/bpf.h
_FUNC_GET_ATTACH_COOKIE = 174


class _UprobeOptions(Structure):
    """``struct bpf_uprobe_opts`` of libbpf 1.0; newer fields are zero by ``size``."""

    _fields_ = (
        ("size", c_size_t),
        ("ref_ctr_offset", c_size_t),
        ("bpf_cookie", c_uint64),
        ("retprobe", c_bool),
        ("func_name", c_char_p),
    )


_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "libbpf_set_print": (c_void_p, [c_void_p]),
    "libbpf_probe_bpf_helper": (c_int, [c_int, c_int, c_void_p]),
    "bpf_object__open_file": (c_void_p, [c_char_p, c_void_p]),
    "bpf_object__load": (c_int, [c_void_p]),
    "bpf_object__close": (None, [c_void_p]),
    "bpf_object__find_map_by_name": (c_void_p, [c_void_p, c_char_p]),
    "bpf_object__find_program_by_name": (c_void_p, [c_void_p, c_char_p]),
    "bpf_object__next_map": (c_void_p, [c_void_p, c_void_p]),
    "bpf_object__next_program": (c_void_p, [c_void_p, c_void_p]),
    "bpf_map__fd": (c_int, [c_void_p]),
    "bpf_map__map_flags": (ctypes.c_uint32, [c_void_p]),
    "bpf_map__set_map_flags": (c_int, [c_void_p, ctypes.c_uint32]),
    "bpf_map__name": (c_char_p, [c_void_p]),
    "bpf_map__reuse_fd": (c_int, [c_void_p, c_int]),
    "bpf_map__set_initial_value": (c_int, [c_void_p, c_char_p, c_size_t]),
    "bpf_map__set_max_entries": (c_int, [c_void_p, ctypes.c_uint32]),
    "bpf_map_lookup_elem": (c_int, [c_int, c_char_p, c_char_p]),
    "bpf_map_update_elem": (c_int, [c_int, c_char_p, c_char_p, c_uint64]),
    "bpf_map_delete_elem": (c_int, [c_int, c_char_p]),
    "bpf_map_get_next_key": (c_int, [c_int, c_char_p, c_char_p]),
    "bpf_program__fd": (c_int, [c_void_p]),
    "bpf_program__name": (c_char_p, [c_void_p]),
    "bpf_program__section_name": (c_char_p, [c_void_p]),
    "bpf_program__set_autoload": (c_int, [c_void_p, c_bool]),
    "bpf_program__set_expected_attach_type": (c_int, [c_void_p, c_int]),
    "bpf_program__attach_uprobe_opts": (
        c_void_p,
        [c_void_p, c_int, c_char_p, c_size_t, POINTER(_UprobeOptions)],
    ),
    "bpf_program__attach_raw_tracepoint": (c_void_p, [c_void_p, c_char_p]),
    "bpf_program__attach_kprobe": (c_void_p, [c_void_p, c_bool, c_char_p]),
    "bpf_link__destroy": (c_int, [c_void_p]),
}


def open_library() -> ctypes.CDLL:
    """Return ``libbpf.so.1`` with typed functions; raises ``LoaderError`` if it is unusable."""
    try:
        library = ctypes.CDLL("libbpf.so.1", use_errno=True)
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError) as error:
        raise library_error(error, "libbpf") from error
    return library


class _Object:
    """The object file, opened: its maps, and those of its programs that are loaded from here."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._lib = library
        if not OBJECT.exists():
            raise LoaderError(
                f"the BPF object {OBJECT} is missing", "build it (make) or use --loader bcc"
            )
        self._handle: int | None = library.bpf_object__open_file(os.fsencode(OBJECT), None)
        if not self._handle:
            raise LoaderError(f"libbpf cannot read {OBJECT}", "build it again (make)")

    def map(self, name: str) -> int:
        """Return a map's handle."""
        return self._found("map", name)

    def program(self, name: str) -> int:
        """Return a program's handle."""
        return self._found("program", name)

    def _found(self, kind: str, name: str) -> int:
        find = getattr(self._lib, f"bpf_object__find_{kind}_by_name")
        handle: int | None = find(self._handle, name.encode())
        if not handle:
            raise LoaderError(f"the BPF object has no {kind} {name}", "build it again (make)")
        return handle

    def maps(self) -> Iterator[tuple[int, str]]:
        """Yield the handle and the name of each map."""
        table = None
        while table := self._lib.bpf_object__next_map(self._handle, table):
            yield table, self._lib.bpf_map__name(table).decode()

    def load(self, wanted: Callable[[str], bool], attach_type: int | None) -> None:
        """Load the maps, and the programs with names that are ``wanted``.

        ``attach_type``: of the programs for uprobes; None: the kernel's default.
        """
        program = None
        while program := self._lib.bpf_object__next_program(self._handle, program):
            if not wanted(self._lib.bpf_program__name(program).decode()):
                self._lib.bpf_program__set_autoload(program, False)
            elif (
                attach_type is not None
                and self._lib.bpf_program__section_name(program) in _UPROBE_SECTIONS
            ):
                self._lib.bpf_program__set_expected_attach_type(program, attach_type)
        with signals_blocked():
            failed, number = self._lib.bpf_object__load(self._handle), ctypes.get_errno()
        if failed:
            raise _load_error(number)

    def close(self) -> None:
        """Give everything back to the kernel that nothing else uses."""
        self._lib.bpf_object__close(self._handle)


class LibbpfLoader:
    """The object loaded through libbpf.

    ``ring_bytes``: a power of two, at least a page.
    ``can_hold``: load the programs that hold threads, too.
    ``notes_waits``: events of plaintext say how their reads waited (bpf/waits.bpf.h).
    ``loads_all``: load also the programs that few files need; else when the first file does. Those
    for tracing functions are loaded when they are attached.
    ``entries``: how many entries some of the maps have, by their names.
    ``programs``: load only those with names that begin so, and others when they are attached.
    ``has_cookies``: the kernel (since 5.15) gives a program the cookie of its probe. Without, every
    library has layout 0.
    """

    name = "co-re"

    def __init__(
        self,
        ring_bytes: int,
        *,
        can_hold: bool = False,
        notes_waits: bool = False,
        loads_all: bool = False,
        entries: Mapping[str, int] = {},
        programs: tuple[str, ...] = (),
    ) -> None:
        self.can_hold = can_hold
        self._programs = programs
        self._lib = open_library()
        # Python cannot read vfprintf's va_list: the reason of an error is only in errno.
        self._lib.libbpf_set_print(None)
        self._map_fds: dict[str, int] = {}
        self._links_multi = uprobe_multi.is_supported()
        self._attach_type = uprobe_multi.BPF_TRACE_UPROBE_MULTI if self._links_multi else None
        self.opens_perf_events = not self._links_multi
        self.has_cookies = self._links_multi or self._has_helper(_FUNC_GET_ATTACH_COOKIE)
        self._object = _Object(self._lib)
        self._later: dict[tuple[str, ...], _Object] = {}
        """How the names of programs that were loaded later begin -> the object that has them."""
        unused = (
            _FUNCTIONS,
            *chain.from_iterable(_LATER),
            *(_SOCKET_KPROBES if release.has_socket_tracepoints() else ()),
            *(() if can_hold else _HOLDING),
        )
        try:
            self._set_hash_map_flags()
            self._set_constants(notes_waits)
            for table, count in {"events": ring_bytes, **entries}.items():
                self._lib.bpf_map__set_max_entries(self._object.map(table), count)
            # The verifier need not check what will not be attached.
            self._object.load(
                lambda name: name.startswith(programs) if programs else not name.startswith(unused),
                self._attach_type,
            )
            for beginnings in _LATER if loads_all else ():
                self._object_with(beginnings[0])
        except BaseException:
            self.close()
            raise

    def _has_helper(self, helper: int) -> bool:
        return bool(self._lib.libbpf_probe_bpf_helper(_PROG_TYPE_KPROBE, helper, None) == 1)

    def _set_hash_map_flags(self) -> None:
        for table, _ in self._object.maps():
            if self._lib.bpf_map__map_flags(table) == release.BPF_F_NO_PREALLOC:
                self._lib.bpf_map__set_map_flags(table, release.hash_map_flags())

    def _set_constants(self, notes_waits: bool) -> None:
        """Set the constants of bpf/kernel.h, in their order there."""
        value = struct.pack("<II", procfs.pid_namespace() is not None, notes_waits)
        self._lib.bpf_map__set_initial_value(self._object.map(".rodata"), value, len(value))

    def _object_with(self, program: str) -> _Object:
        """Return the object with a program; load it if it is one for later. All share the maps."""
        groups = ((program,),) if program.startswith(_FUNCTIONS) else _LATER
        beginnings = next((each for each in groups if program.startswith(each)), None)
        if beginnings is None or program.startswith(self._programs):
            return self._object
        if beginnings not in self._later:
            later = _Object(self._lib)
            try:
                for table, name in later.maps():
                    self._lib.bpf_map__reuse_fd(table, self.map_fd(name))
                later.load(lambda name: name.startswith(beginnings), self._attach_type)
            except BaseException:
                later.close()
                raise
            self._later[beginnings] = later
        return self._later[beginnings]

    def _program(self, name: str) -> int:
        return self._object_with(name).program(name)

    def map_fd(self, name: str) -> int:
        """See ``Loader``."""
        if name not in self._map_fds:
            self._map_fds[name] = self._lib.bpf_map__fd(self._object.map(name))
        return self._map_fds[name]

    def lookup(self, name: str, key: bytes, value_bytes: int) -> bytes | None:
        """See ``Loader``."""
        value = ctypes.create_string_buffer(value_bytes)
        if self._lib.bpf_map_lookup_elem(self.map_fd(name), key, value) != 0:
            return None
        return value.raw

    def update(self, name: str, key: bytes, value: bytes) -> None:
        """See ``Loader``."""
        if self._lib.bpf_map_update_elem(self.map_fd(name), key, value, 0) != 0:
            raise refused_entry(name, ctypes.get_errno())

    def delete(self, name: str, key: bytes) -> None:
        """See ``Loader``."""
        self._lib.bpf_map_delete_elem(self.map_fd(name), key)

    def keys(self, name: str, key_bytes: int) -> list[bytes]:
        """See ``Loader``."""
        found: list[bytes] = []
        key = ctypes.create_string_buffer(key_bytes)
        fd, get_next = self.map_fd(name), self._lib.bpf_map_get_next_key
        # After a key that is gone, the kernel begins again: the map's size bounds this.
        seen: set[bytes] = set()
        while get_next(fd, found[-1] if found else None, key) == 0 and key.raw not in seen:
            found.append(key.raw)
            seen.add(key.raw)
        return found

    def is_empty(self, name: str) -> bool:
        """See ``Loader``."""
        key = ctypes.create_string_buffer(_MOST_KEY_BYTES)
        return bool(self._lib.bpf_map_get_next_key(self.map_fd(name), None, key) != 0)

    def attach_uprobes(
        self,
        program: str,
        path: str,
        offsets: Sequence[int],
        *,
        is_return: bool,
        cookies: Sequence[int],
        semaphores: Sequence[int] = (),
    ) -> Detach:
        """See ``Loader``."""
        check_places(path, offsets)
        semaphores = semaphores or [0] * len(offsets)
        if self._links_multi:
            return self._link_uprobes(program, path, offsets, is_return, cookies, semaphores)
        with contextlib.ExitStack() as attached:
            for offset, cookie, semaphore in zip(offsets, cookies, semaphores, strict=True):
                options = _UprobeOptions(
                    size=ctypes.sizeof(_UprobeOptions),
                    ref_ctr_offset=semaphore,
                    bpf_cookie=cookie if self.has_cookies else 0,
                    retprobe=is_return,
                )
                link = self._lib.bpf_program__attach_uprobe_opts(
                    self._program(program), -1, os.fsencode(path), offset, byref(options)
                )
                if not link:
                    raise refused_probe(program, [offset], ctypes.get_errno())
                attached.callback(self._lib.bpf_link__destroy, link)
            return attached.pop_all().close

    def _link_uprobes(
        self,
        program: str,
        path: str,
        offsets: Sequence[int],
        is_return: bool,
        cookies: Sequence[int],
        semaphores: Sequence[int],
    ) -> Detach:
        fd = self._lib.bpf_program__fd(self._program(program))
        try:
            link = uprobe_multi.link(
                fd, path, offsets, is_return=is_return, cookies=cookies, semaphores=semaphores
            )
        except OSError as error:
            raise refused_probe(program, offsets, error.errno or 0) from error
        return functools.partial(os.close, link)

    def attach_raw_tracepoint(self, program: str, tracepoint: str) -> Detach:
        """See ``Loader``."""
        link = self._lib.bpf_program__attach_raw_tracepoint(
            self._program(program), tracepoint.encode()
        )
        return self._detach(link, f"tracepoint {tracepoint}")

    def attach_kprobe(self, program: str, function: str) -> Detach:
        """See ``Loader``."""
        link = self._lib.bpf_program__attach_kprobe(
            self._program(program), False, function.encode()
        )
        return self._detach(link, f"kprobe {function}")

    def _detach(self, link: int | None, place: str) -> Detach:
        if not link:
            raise refused_place(place, ctypes.get_errno())
        return functools.partial(self._lib.bpf_link__destroy, link)

    def close(self) -> None:
        """See ``Loader``."""
        for each in (*self._later.values(), self._object):
            each.close()


def _load_error(number: int) -> SslsniffError:
    reason = os.strerror(number)
    missing = privileges.missing()
    if number == errno.EPERM and not missing and release.counts_maps_as_locked():
        return PrivilegeError(
            f"no right to lock memory for the maps of BPF programs ({reason})",
            "raise the limit (ulimit -l unlimited)",
        )
    if number == errno.EACCES and not missing:
        return KernelError(
            "this kernel's verifier refused a BPF program",
            "report it with the output of sslsniff doctor --json",
        )
    if number in (errno.EPERM, errno.EACCES):
        return PrivilegeError(
            f"no right to load BPF programs as user {os.geteuid()} ({reason})",
            privileges.remedy(missing),
        )
    return KernelError(
        f"the kernel did not load the BPF programs ({reason})",
        "use kernel 5.8 or newer with BTF, or try --loader bcc; see sslsniff doctor",
    )
