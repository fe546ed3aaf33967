"""Looks into the files of traced programs by workers without rights, and checks their answers."""

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from typing import Any, Self, TypeVar

from sslsniff.analysis.analysis_process import AnalysisProcess, WorkerProgram
from sslsniff.analysis.checked_fields import INVALID, text, wanted_debug_file
from sslsniff.core.errors import NO_TIME, ElfError, SslsniffError
from sslsniff.elf.debug_files import Offer, open_offers, open_trusted
from sslsniff.elf.elf_file import open_file
from sslsniff.elf.file_format import code_parts, is_elf
from sslsniff.functions.workers import limits, requests
from sslsniff.functions.workers.message_channel import MessageChannel, MessageError
from sslsniff.kernel.resource_limits import OverTimeError, limited

MOST_ANSWER_BYTES = 32 << 20
"""Of an answer that is no plan: 1,000 functions with the longest names have about 10 MB."""
MOST_WORKERS = 128
"""Files that are looked into at once: each has a process of its own."""

_MOST_QUESTIONS = 65_536
"""How many files beside a program a worker may ask for: its split units have one each."""
_REMEDY = "see readelf or objdump"

_Answer = TypeVar("_Answer")


def _tracing_worker() -> WorkerProgram:
    from sslsniff.functions.workers.tracing_worker import WORKER

    return WORKER


class UnreadFileError(ElfError):
    """A file takes more than its worker may take, or the worker ended or forged an answer."""


class FileReaders:
    """The workers that look into files, and the process that they are forked from.

    A context manager, made before a thread is started: it forks.
    ``load_program``: as of ``AnalysisProcess``; by default, for files of traced programs.
    """

    def __init__(self, load_program: Callable[[], WorkerProgram] = _tracing_worker) -> None:
        self._process = AnalysisProcess(load_program)
        self._process.prepare(at_once=True)
        self._readers: list[FileReader] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_full(self) -> bool:
        """Whether no more files may be opened."""
        return len(self._readers) >= MOST_WORKERS

    def open(self, path: str) -> "FileReader":
        """Open the file at ``path``, with a worker for it; raises ``ElfError``."""
        file = open_file(path)
        try:
            reader = FileReader(path, file, self._process)
        finally:
            os.close(file)
        self._readers.append(reader)
        return reader

    def close(self) -> None:
        """End all workers, and the process."""
        for each in self._readers:
            each.close()
        self._readers.clear()
        self._process.close()


class FileReader:
    """Looks into the open ``file`` by a worker; the caller may close the file afterwards.

    ``path``: its name in messages; its debug files are searched beside it, too.
    ``status``: by fstat(2). ``code``: its segments of code. Raises ``ElfError``, also if it is no
    ELF file.
    """

    def __init__(self, path: str, file: int, process: AnalysisProcess) -> None:
        self.path = path
        self.status = os.fstat(file)
        self.code = code_parts(file)
        self._process = process
        self._questions = 0
        self._refusal: tuple[str, str] | None = None
        self._number, self._socket = process.start_worker(limits.MOST_CPU_S)
        self._socket.settimeout(limits.MOST_WAIT_S)
        self._channel = MessageChannel(self._socket)
        self._is_closed = False
        try:
            self.ask({"do": requests.OPEN, "path": path}, _nothing, file)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the worker. Safe to call again."""
        if not self._is_closed:
            self._is_closed = True
            self._socket.close()
            self._process.stop_worker(self._number)

    def ask(
        self,
        request: dict[str, Any],
        parse: Callable[[Any], _Answer],
        *files: int,
        condition: str | None = None,
        most_bytes: int = MOST_ANSWER_BYTES,
    ) -> _Answer:
        """Return what ``parse`` makes of the worker's answer to ``request``.

        ``parse``: raises one of ``INVALID`` for an answer in a wrong form.
        ``condition``: the text that may be wrong. ``most_bytes``: of the answer.
        Raises ``SslsniffError``: that of the worker, or ``UnreadFileError``, then each time.
        Only the main thread may call it: a signal ends what takes too much CPU.
        """
        if self._refusal is not None:
            raise UnreadFileError(*self._refusal)
        try:
            with limited(limits.MOST_CPU_S, limits.MOST_MEMORY_BYTES):
                return self._ask(request, parse, files, condition, most_bytes)
        except OverTimeError:
            over = limits.over_cpu(limits.MOST_CPU_S)
        except MemoryError:
            over = limits.over_memory()
        raise self._refused(f"{self.path} takes more than {over}")

    def _ask(
        self,
        request: dict[str, Any],
        parse: Callable[[Any], _Answer],
        files: Sequence[int],
        condition: str | None,
        most_bytes: int,
    ) -> _Answer:
        try:
            self._channel.send(request, files)
            answer = self._receive(most_bytes)
        except MessageError:
            raise self._refused(
                f"{self.path} cannot be read: the process that did so ended or does not answer"
            ) from None
        except (OverTimeError, MemoryError):
            raise
        except BaseException:  # at the end of the trace; what comes is not the next one's answer
            self._refused(f"{self.path} is not read to its end", NO_TIME)
            raise
        error: SslsniffError
        try:
            if "error" in answer:
                error = requests.parse_error(answer, condition)
            elif "over" in answer:
                error = self._refused(f"{self.path} takes more than {text(answer['over'])}")
            elif "failed" in answer:
                error = ElfError(f"{self.path} cannot be read ({text(answer['failed'])})", _REMEDY)
            else:
                return parse(answer["result"])
        except INVALID:
            error = self._refused(f"{self.path} cannot be read: what was found makes no sense")
        raise error

    def _refused(self, fact: str, remedy: str = _REMEDY) -> UnreadFileError:
        """End the worker, and return the error of this and of all later requests."""
        self.close()
        self._refusal = fact, remedy
        return UnreadFileError(*self._refusal)

    def _receive(self, most_bytes: int) -> dict[str, Any]:
        """Return the worker's answer; answer its questions before it. Raises ``MessageError``."""
        until_s = time.monotonic() + limits.MOST_WAIT_S
        while True:
            message = self._channel.receive(until_s, most_bytes)
            if not isinstance(message, dict):
                raise MessageError
            if "do" not in message:
                return message
            self._questions += 1
            if self._questions > _MOST_QUESTIONS:
                raise MessageError
            with contextlib.ExitStack() as closing:
                try:
                    offers = self._open_beside(message, closing)
                except INVALID:
                    raise MessageError from None
                self._channel.send([each.path for each in offers], [each.file for each in offers])

    def _open_beside(self, question: dict[str, Any], closing: contextlib.ExitStack) -> list[Offer]:
        """Open the files that a worker asks for; it gets only ELF files.

        It may be hostile: by this, too, no file can be read that is none.
        """
        owner = self.status.st_uid
        if question["do"] == requests.TRUSTED:
            path = text(question["path"])
            file = open_trusted(path, owner, closing)
            found = [] if file is None else [Offer(path, file)]
        else:
            wanted = wanted_debug_file(question["wanted"])
            found = open_offers(self.path, owner, wanted, closing)
        return [each for each in found if is_elf(each.file)]


def _nothing(result: Any) -> None:
    if result is not None:
        raise ValueError
