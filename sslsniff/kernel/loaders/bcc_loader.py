"""The bcc loader: the same BPF source, compiled when sslsniff starts; for kernels without BTF."""

import contextlib
import ctypes
import functools
import importlib
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from sslsniff.core.errors import KernelError, LoaderError, SslsniffError
from sslsniff.kernel import procfs, release
from sslsniff.kernel.loaders.library_errors import library_error
from sslsniff.kernel.loaders.loader import (
    Detach,
    refused_entry,
    refused_place,
    refused_probe,
    signals_blocked,
)
from sslsniff.kernel.probe_safety.place_check import check_places

SOURCES = Path(__file__).parents[2] / "bpf"

# Where distributions put bcc for their own Python; a virtual environment does not look there.
_SYSTEM_PACKAGES = "/usr/lib/python3/dist-packages"

_SHORT_TEXT = b"int nothing(void *context) { return 0; }"

_INCLUDE = re.compile(r'^#include "(.+)"$', re.MULTILINE)
_METHODS = (
    (re.compile(r"\bmap_(lookup|update|insert|delete)\((\w+), "), r"\2.\1("),
    (re.compile(r"\bring_reserve\((\w+), "), r"\1.ringbuf_reserve("),
    (re.compile(r"\bring_submit\((\w+), (\w+)\)"), r"\1.ringbuf_submit(\2, 0)"),
    (re.compile(r"\btail_call\((\w+), (\w+)\)"), r"\2.call(\1, 0)"),
)


def source_text(entries: Mapping[str, int] = {}) -> str:
    """Return the BPF source as one text for bcc: with its includes, and method calls on maps.

    ``entries``: how many entries some of the maps have, by their names.
    """
    included: set[str] = set()

    def once(match: re.Match[str]) -> str:
        name = "bcc.h" if match[1] == "kernel.h" else match[1]
        if name in included:
            return ""
        included.add(name)
        return whole(name)

    def whole(name: str) -> str:
        return _INCLUDE.sub(once, (SOURCES / name).read_text(encoding="utf-8"))

    text = whole("sslsniff.bpf.c").replace("#pragma once\n", "")
    for pattern, replacement in _METHODS:
        text = pattern.sub(replacement, text)
    for name, count in entries.items():
        text = re.sub(rf"^(MAP_\w+\({name}, .*, )\w+\);$", rf"\g<1>{count});", text, flags=re.M)
    return text


def import_bcc() -> Any:
    """Return the module ``bcc``; raises ``LoaderError`` if it is not installed, or damaged."""
    with contextlib.suppress(ModuleNotFoundError):
        return _imported_bcc()
    sys.path.append(_SYSTEM_PACKAGES)
    try:
        return _imported_bcc()
    except ModuleNotFoundError as error:
        raise LoaderError(
            "bcc is not installed", "install it (Debian: apt install python3-bpfcc)"
        ) from error
    finally:
        sys.path.remove(_SYSTEM_PACKAGES)


def _imported_bcc() -> Any:
    """Import ``bcc``, which loads libbcc; raises ``ModuleNotFoundError`` if there is none."""
    try:
        return importlib.import_module("bcc")
    except OSError as error:  # libbcc, or a library that it needs
        raise library_error(error, "libbcc") from error
    except Exception as error:  # a damaged module may raise anything
        if isinstance(error, ModuleNotFoundError) and error.name == "bcc":
            raise
        raise LoaderError(
            f"the Python module bcc cannot be imported ({error})",
            "install it again (Debian: apt install --reinstall python3-bpfcc)",
        ) from error


@contextlib.contextmanager
def _captured_output() -> Iterator[IO[bytes]]:
    """Redirect what this process and its children print into the file that it yields."""
    with tempfile.TemporaryFile() as output, contextlib.ExitStack() as restoring:
        for standard in (1, 2):
            with contextlib.suppress(OSError):  # the parent process closed it
                saved = os.dup(standard)
                restoring.callback(os.close, saved)
                restoring.callback(os.dup2, saved, standard)
                os.dup2(output.fileno(), standard)
        restoring.callback(_flush_streams)
        yield output


def _flush_streams() -> None:
    """Flush the streams of C, which buffer output into a file."""
    ctypes.CDLL(None).fflush(None)


@contextlib.contextmanager
def _bcc_errors(kind: type[SslsniffError], fact: str, remedy: str) -> Iterator[None]:
    """Raise errors of bcc, which are bare ``Exception``s, as ``kind``, with the reason.

    The reason is in what bcc, its clang and modprobe print: an error of the compiler, or else the
    last line. They print also without an error; that is not shown.
    """
    with _captured_output() as output:
        try:
            yield
        except Exception as error:
            _flush_streams()
            output.seek(0)
            printed = output.read().decode("utf-8", "replace").splitlines()
            lines = [line.strip() for line in printed if line.strip()] or [str(error)]
            reason = next((line for line in lines if "error:" in line), lines[-1])
            raise kind(f"{fact} ({reason})", remedy) from error


class BccLoader:
    """The source compiled and loaded through bcc.

    ``ring_bytes``: a power of two.
    ``notes_waits``: see ``LibbpfLoader``.
    ``entries``: how many entries some of the maps have, by their names.

    While bcc works, nothing is shown that a thread of this process prints.
    """

    name = "bcc"
    opens_perf_events = True
    can_hold = False  # bpf/hold.bpf.h needs types that are this kernel's

    def __init__(
        self, ring_bytes: int, *, notes_waits: bool = False, entries: Mapping[str, int] = {}
    ) -> None:
        self._bcc = import_bcc()
        flags = [f"-DRING_BYTES={ring_bytes}", f"-DHASH_FLAGS={release.hash_map_flags()}"]
        flags += [
            f"-Din_pid_namespace={procfs.pid_namespace() is not None:d}",
            f"-Dnotes_waits={notes_waits:d}",
            "-DSSLSNIFF_BCC",
            "-w",
        ]
        remedy = (
            f"install the kernel's headers (Debian: apt install linux-headers-{os.uname().release})"
            " or set BCC_KERNEL_SOURCE to them"
        )
        with _bcc_errors(LoaderError, "bcc could not compile or load the BPF source", remedy):
            # Without headers the compiler in this process may crash at a long text.
            self._bcc.BPF(text=_SHORT_TEXT, cflags=flags)
            self._bpf = self._bcc.BPF(text=source_text(entries).encode(), cflags=flags)

    def _function(self, program: str, kind: int) -> Any:
        what = f"the kernel did not load {program}"
        with _bcc_errors(KernelError, what, "run sslsniff doctor"), signals_blocked():
            return self._bpf.load_func(program.encode(), kind)

    def map_fd(self, name: str) -> int:
        """See ``Loader``."""
        table = self._bpf.get_table(name.encode()) if name != "events" else self._bpf[b"events"]
        return int(table.map_fd)

    def lookup(self, name: str, key: bytes, value_bytes: int) -> bytes | None:
        """See ``Loader``."""
        ctypes = self._bcc.ct
        value = ctypes.create_string_buffer(value_bytes)
        key_buffer = ctypes.create_string_buffer(key, len(key))
        if self._bcc.lib.bpf_lookup_elem(self.map_fd(name), key_buffer, value) != 0:
            return None
        return bytes(value.raw)

    def update(self, name: str, key: bytes, value: bytes) -> None:
        """See ``Loader``."""
        ctypes = self._bcc.ct
        key_buffer = ctypes.create_string_buffer(key, len(key))
        value_buffer = ctypes.create_string_buffer(value, len(value))
        if self._bcc.lib.bpf_update_elem(self.map_fd(name), key_buffer, value_buffer, 0) != 0:
            raise refused_entry(name, ctypes.get_errno())

    def delete(self, name: str, key: bytes) -> None:
        """See ``Loader``."""
        buffer = self._bcc.ct.create_string_buffer(key, len(key))
        self._bcc.lib.bpf_delete_elem(self.map_fd(name), buffer)

    def keys(self, name: str, key_bytes: int) -> list[bytes]:
        """See ``Loader``."""
        return [bytes(key)[:key_bytes] for key in self._bpf.get_table(name.encode())]

    def is_empty(self, name: str) -> bool:
        """See ``Loader``."""
        return not any(True for _ in self._bpf.get_table(name.encode()))

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
        # bcc's own attach_uprobe takes addresses; the function below it takes file offsets.
        function = self._function(program, self._bcc.BPF.KPROBE)
        semaphores = semaphores or [0] * len(offsets)
        with contextlib.ExitStack() as attached:
            for offset, semaphore in zip(offsets, semaphores, strict=True):
                event = re.sub(r"\W", "_", f"{program}_{path}_{offset:#x}")[-60:].encode()
                fd = self._bcc.lib.bpf_attach_uprobe(
                    function.fd,
                    int(is_return),
                    event,
                    os.fsencode(path),
                    offset,
                    -1,
                    semaphore,
                )
                if fd < 0:
                    raise refused_probe(program, [offset], self._bcc.ct.get_errno())
                attached.callback(self._bcc.lib.bpf_close_perf_event_fd, fd)
            return attached.pop_all().close

    def attach_raw_tracepoint(self, program: str, tracepoint: str) -> Detach:
        """See ``Loader``."""
        function = self._function(program, self._bcc.BPF.RAW_TRACEPOINT)
        fd = self._bcc.lib.bpf_attach_raw_tracepoint(function.fd, tracepoint.encode())
        if fd < 0:
            raise refused_place(f"tracepoint {tracepoint}", self._bcc.ct.get_errno())
        return functools.partial(os.close, fd)

    def attach_kprobe(self, program: str, function: str) -> Detach:
        """See ``Loader``."""
        with _bcc_errors(KernelError, f"cannot attach kprobe {function}", "run sslsniff doctor"):
            self._bpf.attach_kprobe(event=function.encode(), fn_name=program.encode())
        return functools.partial(self._bpf.detach_kprobe, event=function.encode())

    def close(self) -> None:
        """See ``Loader``."""
        self._bpf.cleanup()
