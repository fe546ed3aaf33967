"""Stores tables in a folder here, or in one of an object store such as S3.

A file gets its name when it is whole. One that a killed sslsniff has left begins with a dot, has no
end, and no engine reads it; in an object store there is none.
"""

import io
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Protocol
from urllib.parse import parse_qsl, unquote, urlsplit

from pyarrow.fs import AwsStandardS3RetryStrategy, FileSystem, FileType, S3FileSystem

from sslsniff.core.errors import OutputError
from sslsniff.destinations.delivery import Delivery, without_user
from sslsniff.destinations.output_files import check_folder, create_folder, open_output

_MOST_WAITING = 4
"""Files, in memory."""
_GIVE_UP_S = 300
_PARAMETERS = ("endpoint_override", "region", "scheme")
_REMEDY = "use a URL such as s3://bucket/folder"


class NewFile(Protocol):
    """A file that is being written to ``stream``."""

    stream: BinaryIO

    def complete(self) -> None:
        """Give the file its name."""


class TableFolder(Protocol):
    """A folder, ``name`` as given. ``file_bytes``: the size at which a file in it is ended."""

    name: str
    file_bytes: int

    def begin(self, inside: str, name: str) -> NewFile:
        """Begin a file in the folder ``inside`` of this one; raises ``OutputError``."""

    def persist(self) -> None:
        """Store the files that are complete. Raises ``OutputError`` if one was dropped."""

    def close(self) -> None:
        """Finish: no more files come."""


class LocalFolder:
    """A folder of this machine, for its owner alone."""

    file_bytes = 128 << 20

    def __init__(self, path: Path) -> None:
        create_folder(path)
        self.name = str(path)
        self._path = path

    def begin(self, inside: str, name: str) -> NewFile:
        """See ``TableFolder``."""
        create_folder(self._path / inside)
        return _LocalFile(self._path / inside, name)

    def persist(self) -> None:
        """See ``TableFolder``: they are."""

    def close(self) -> None:
        """See ``TableFolder``."""


class _LocalFile:
    def __init__(self, folder: Path, name: str) -> None:
        self._path = folder / name
        self._unfinished = folder / f".{name}.unfinished"
        self.stream = open_output(self._unfinished)

    def complete(self) -> None:
        self.stream.close()
        self._unfinished.rename(self._path)


class ObjectStore:
    """A folder at a URL that pyarrow knows, such as ``s3://bucket/folder``.

    Whole files wait in memory and are uploaded by a thread: see ``Delivery`` for what it does when
    the store does not answer, for ``report``, and for ``can_wait``. ``end_within_s``: how long the
    last uploads may take at the end.
    """

    file_bytes = 32 << 20

    def __init__(
        self, url: str, report: Callable[[str], None], *, can_wait: bool, end_within_s: float
    ) -> None:
        self.name = without_user(url)
        self._files, self._folder = open_url(url)
        self._end_within_s = end_within_s
        self._delivery: Delivery[tuple[str, bytes]] = Delivery(
            f"files to {self.name.partition('?')[0]}",
            self._upload,
            report,
            can_wait=can_wait,
            most_waiting=_MOST_WAITING,
            most_at_once=1,
            give_up_s=_GIVE_UP_S,
        )

    def begin(self, inside: str, name: str) -> NewFile:
        """See ``TableFolder``."""
        path = f"{self._folder}/{inside}/{name}"
        return _WaitingFile(lambda data: self._delivery.add((path, data)))

    def persist(self) -> None:
        """See ``TableFolder``."""
        self._delivery.deliver_all()

    def close(self) -> None:
        """See ``TableFolder``."""
        self._delivery.close(self._end_within_s, lambda: None)

    def _upload(self, batch: list[tuple[str, bytes]]) -> str | None:
        try:
            for path, data in batch:
                with self._files.open_output_stream(path) as stream:
                    stream.write(data)
        except OSError as error:
            return _first_line(error)
        return None


class _WaitingFile:
    def __init__(self, deliver: Callable[[bytes], None]) -> None:
        self.stream: BinaryIO = io.BytesIO()
        self._deliver = deliver

    def complete(self) -> None:
        assert isinstance(self.stream, io.BytesIO)
        self._deliver(self.stream.getvalue())


def is_url(folder: str) -> bool:
    """Return whether ``folder`` is a URL, not a path."""
    return "://" in folder


def check_place(folder: str) -> None:
    """Raise the ``OutputError`` that opening the folder would, as far as it is known before.

    An object store must answer, and have the bucket.
    """
    if not is_url(folder):
        check_folder(Path(folder))
        return
    name = without_user(folder)
    files, path = open_url(folder)
    bucket = path.partition("/")[0]
    try:
        found = files.get_file_info(bucket).type
    except OSError as error:
        raise OutputError(
            f"{name}: {_first_line(error)}", "check address, keys and region"
        ) from error
    if found is FileType.NotFound:
        raise OutputError(f"{name}: there is no bucket {bucket}", "make it first")


def open_url(url: str) -> tuple[FileSystem, str]:
    """Return the file system of a URL, and the path in it; raises ``OutputError``."""
    name = without_user(url)
    try:
        files, path = FileSystem.from_uri(url)
    except (OSError, ValueError, NotImplementedError) as error:
        raise OutputError(f"{name}: {_first_line(error)}", _REMEDY) from error
    if not path or path.startswith("/"):
        raise OutputError(f"{name}: there is no bucket in it", _REMEDY)
    if isinstance(files, S3FileSystem):
        files = _asking_once(files, url)
    return files, path.rstrip("/")


def _asking_once(files: S3FileSystem, url: str) -> S3FileSystem:
    """Return the store at ``url``, whose requests are not repeated: ``Delivery`` repeats them.

    A process cannot end while pyarrow repeats one, and for a store that does not answer that takes
    100 s. ``files``: the same store, which repeats.
    """
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query))
    unknown = query.keys() - _PARAMETERS
    if unknown:
        raise OutputError(
            f"{without_user(url)}: {min(unknown)} is not known", f"use {', '.join(_PARAMETERS)}"
        )
    return S3FileSystem(
        access_key=parts.username and unquote(parts.username),
        secret_key=parts.password and unquote(parts.password),
        retry_strategy=AwsStandardS3RetryStrategy(max_attempts=1),
        **{"region": files.region or None, **query},
    )


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
