"""A worker that looks into one file: without rights, and limited.

It is forked from a process that has imported all modules (``analysis_process``), and answers
``requests`` on its socket. What is wrong is an answer, too: ``{"error": ...}`` as a user reads it,
``{"over": "600 s of CPU"}`` or ``{"failed": "struct.error"}``. A hostile file may have taken over
the worker, so sslsniff checks each answer (``file_reader``).
"""

import os
import resource
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from sslsniff.analysis.confinement import confine
from sslsniff.core.errors import SslsniffError
from sslsniff.elf.elf_file import Elf
from sslsniff.elf.readable_names import readable_name
from sslsniff.elf.wanted_files import WantedDebugFile
from sslsniff.functions.dwarf import scanner
from sslsniff.functions.workers import limits, requests
from sslsniff.functions.workers.message_channel import (
    MOST_MESSAGE_BYTES,
    LongMessageError,
    MessageChannel,
)
from sslsniff.kernel import resource_limits
from sslsniff.kernel.resource_limits import OverTimeError
from sslsniff.machine_code.instructions import disassemble
from sslsniff.machine_code.stripped import distances


class FileWorker:
    """What a worker runs (``WorkerProgram``).

    ``answers``: by what a request asks for, what returns the result, in the form of JSON.
    ``import_more``: imports the modules that these import late.
    """

    def __init__(
        self, answers: Mapping[str, "Answer"], import_more: Callable[[], None] = lambda: None
    ) -> None:
        self._answers = answers
        self._import_more = import_more

    def import_all(self) -> None:
        """Import the modules that a worker needs: it cannot open files later."""
        disassemble(b"\xc3", 0)  # imports capstone
        readable_name("_Z1fv")  # imports pyderust and cpp_demangle
        scanner.load_library()
        distances.load_library()
        self._import_more()

    def run(self, channel: socket.socket, parent: int, cpu_s: int) -> NoReturn:
        """Run a worker, in the child of a fork: answer requests until there are no more.

        ``cpu_s``: the limit in seconds of CPU for all of them.
        """
        try:
            resource_limits.raise_when_over_time()
            open_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)  # split units have one each
            confine(parent, cpu_s, limits.MOST_MEMORY_BYTES, open_files)
            _Server(MessageChannel(channel), self._answers, cpu_s).serve()
        finally:
            os._exit(0)


class _AskingOpener:
    """Asks sslsniff for the files beside a program (``FileOpener``)."""

    def __init__(self, channel: MessageChannel) -> None:
        self._channel = channel
        self._known: dict[WantedDebugFile, Sequence[tuple[str, int]]] = {}

    def offers(self, wanted: WantedDebugFile, /) -> Sequence[tuple[str, int]]:
        if wanted not in self._known:
            self._known[wanted] = self._ask({"do": requests.OFFERS, "wanted": wanted})
        return self._known[wanted]

    def trusted(self, path: str, /) -> int | None:
        found = self._ask({"do": requests.TRUSTED, "path": path})
        return found[0][1] if found else None

    def _ask(self, message: Any) -> list[tuple[str, int]]:
        self._channel.send(message)
        paths, files = self._channel.receive_with_files()
        # Fewer files than paths: this process may not have more open.
        return list(zip(paths, files, strict=False))


class OpenFile:
    """The file that a worker looks into; ``kept``: what answers keep for later ones."""

    def __init__(self, path: str, file: int, opener: _AskingOpener) -> None:
        self.elf = Elf(path, file)
        self.elf.opener = opener
        self.kept: dict[str, Any] = {}


Answer = Callable[[OpenFile, dict[str, Any]], Any]
"""Returns the result for a request; it may raise anything."""


class _Server:
    """Answers the requests about one file."""

    def __init__(self, channel: MessageChannel, answers: Mapping[str, Answer], cpu_s: int) -> None:
        self._channel = channel
        self._answers = answers
        self._cpu_s = cpu_s
        self._file: OpenFile | None = None

    def serve(self) -> None:
        while True:
            request, files = self._channel.receive_with_files()
            answer = self._answer(request, files)
            try:
                self._channel.send(answer)
            except LongMessageError:
                most = f"a plan of {MOST_MESSAGE_BYTES >> 20} MB"
                self._channel.send({"over": most})

    def _answer(self, request: dict[str, Any], files: list[int]) -> dict[str, Any]:
        try:
            if request["do"] == requests.OPEN:
                opener = _AskingOpener(self._channel)
                self._file = OpenFile(request["path"], files[0], opener)
                return {"result": None}
            if self._file is None:
                return {"failed": "no file"}
            return {"result": self._answers[request["do"]](self._file, request)}
        except OverTimeError:
            return {"over": limits.over_cpu(self._cpu_s)}
        except MemoryError:
            return {"over": limits.over_memory()}
        except SslsniffError as error:
            return requests.error_message(error)
        except Exception as error:  # a damaged file can lead to any
            return {"failed": type(error).__name__}
