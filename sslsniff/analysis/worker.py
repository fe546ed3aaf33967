"""The worker that analyses files: without rights, unable to open anything, and limited.

The ``analysis_process``, which has imported all modules, forks it. Requests and answers are
messages on its socket, in JSON. A request has the descriptors of the file, and of files that may be
its debug file: ``{"path": ..., "style": ..., "key_log": ..., "cpu_s": ..., "debug": [path, ...]}``.
An answer is either a plan as ``result_cache`` stores it, ``{"plan": ..., "wanted": [build id, name]
or null}``, or why there is none, ``{"over": "10 s of CPU"}`` or ``{"failed": "struct.error"}``.
With a low limit of CPU, a search that takes long is not begun: ``{"over": "...", "wants":
"SSL_read"}``. A hostile file may have taken over the worker, so sslsniff checks an answer like an
entry of the cache.
"""

import importlib
import json
import os
import pkgutil
import socket
from typing import Any, NoReturn

from sslsniff import libraries
from sslsniff.analysis import result_cache
from sslsniff.analysis.attachments import make_attachment
from sslsniff.analysis.confinement import confine
from sslsniff.analysis.stripped_fitting import LongSearchError
from sslsniff.analysis.worker_messages import LARGEST_MESSAGE_BYTES
from sslsniff.core.errors import ElfError
from sslsniff.elf.elf_file import Elf
from sslsniff.elf.symbols import demangle
from sslsniff.kernel import resource_limits
from sslsniff.kernel.resource_limits import OverTimeError
from sslsniff.machine_code.instructions import disassemble
from sslsniff.machine_code.stripped.distances import load_library
from sslsniff.matching.probe_set import Refusal, ReturnStyle

MOST_MEMORY_BYTES = 512 << 20
"""How much address space a worker may take, beside that of the process that it is forked from."""

_MOST_DEBUG_FILES = 4
_MOST_OPEN_FILES = 16
_SEARCHES_FROM_S = 2  # a worker with at least this limit of CPU searches functions in long code
_NICE_FROM_S = 8  # one with at least this limit runs after other processes
_NICE = 10

_IMPORTED_LATE = (
    "sslsniff.machine_code.call_chains",
    "sslsniff.machine_code.probe_pairs",
    "sslsniff.matching.handed_calls",
    "sslsniff.matching.calling_back",
    "sslsniff.matching.hidden_functions",
    "sslsniff.matching.key_log.of_c",
    "sslsniff.matching.raising_functions",
)
"""What others import only to analyse a file."""
_IN_LIBRARIES = (".layout", ".key_log", "_fitting")
"""The same, in the folder of each library that has it."""


def import_all() -> None:
    """Import the modules that a worker needs: it cannot open files later."""
    found = pkgutil.walk_packages(libraries.__path__, f"{libraries.__name__}.")
    of_libraries = (each.name for each in found if each.name.endswith(_IN_LIBRARIES))
    for module in (*_IMPORTED_LATE, *of_libraries):
        importlib.import_module(module)
    disassemble(b"\xc3", 0)  # imports capstone
    demangle("_R")  # imports pyderust
    load_library()


def run(channel: socket.socket, parent: int, cpu_s: int) -> NoReturn:
    """Run a worker, in the child of a fork: answer requests until there are no more.

    ``cpu_s``: the limit in seconds of CPU; 0: each request has its own limit.
    """
    try:
        resource_limits.raise_when_over_time()
        _confine(parent, cpu_s)
        _serve(channel, has_request_limits=not cpu_s)
    finally:
        os._exit(0)


def _confine(parent: int, cpu_s: int) -> None:
    if cpu_s >= _NICE_FROM_S:
        os.nice(_NICE)
    confine(parent, cpu_s, MOST_MEMORY_BYTES, _MOST_OPEN_FILES)


def _serve(channel: socket.socket, *, has_request_limits: bool) -> None:
    most_files = 1 + _MOST_DEBUG_FILES
    while True:
        message, files, _, _ = socket.recv_fds(channel, LARGEST_MESSAGE_BYTES, most_files)
        if not message:
            return
        request = json.loads(message)
        if has_request_limits:
            resource_limits.allow_cpu(request["cpu_s"])
        answer = json.dumps(_answer(request, files), separators=(",", ":")).encode()
        if len(answer) > LARGEST_MESSAGE_BYTES:
            answer = b'{"failed":"a plan of more than 64 KB"}'
        channel.send(answer)
        for file in files:
            os.close(file)


def _answer(request: dict[str, Any], files: list[int]) -> dict[str, Any]:
    try:
        return _plan(request, files)
    except OverTimeError:
        return {"over": f"{request['cpu_s']} s of CPU"}
    except LongSearchError as error:
        return {"over": f"{request['cpu_s']} s of CPU", "wants": error.wanted}
    except MemoryError:
        return {"over": f"{MOST_MEMORY_BYTES >> 20} MB of memory"}
    except Exception as error:  # a damaged file can lead to any
        return {"failed": type(error).__name__}


def _plan(request: dict[str, Any], files: list[int]) -> dict[str, Any]:
    file, *debug_files = files
    wanted = None
    try:
        with Elf(request["path"], file) as elf:
            elf.offered = list(zip(request["debug"], debug_files, strict=True))
            found = make_attachment(
                elf,
                ReturnStyle(request["style"]),
                may_search_long=request["cpu_s"] >= _SEARCHES_FROM_S,
                key_log=request["key_log"],
            )
            wanted = elf.wanted
    except ElfError as error:
        found = Refusal(error.fact, remedy=error.remedy)
    return {"plan": result_cache.entry(found), "wanted": wanted}
