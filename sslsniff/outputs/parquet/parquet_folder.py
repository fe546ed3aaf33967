"""Writes exchanges as Parquet files: ``date=2026-11-25/hour=14/HOST-TIME-NUMBER.parquet``.

Engines read the names of the folders as columns (Hive's partitions).
"""

import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sslsniff.core.errors import OutputError
from sslsniff.core.model import Exchange
from sslsniff.core.process import this_machine
from sslsniff.core.sink import Sink
from sslsniff.forms.exchange_columns import ColumnKind, TableColumn, exchange_columns
from sslsniff.outputs.parquet.folders import TableFolder

_TYPES = {
    ColumnKind.TIME: pa.timestamp("us", tz="UTC"),
    ColumnKind.TEXT: pa.string(),
    ColumnKind.INTEGER: pa.int64(),
    ColumnKind.NUMBER: pa.float64(),
    ColumnKind.FLAG: pa.bool_(),
    ColumnKind.TEXTS: pa.list_(pa.string()),
    ColumnKind.HEADERS: pa.map_(pa.string(), pa.list_(pa.string())),
    ColumnKind.BYTES: pa.binary(),
}
_NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"  # read as null by DuckDB, Arrow and Spark
_HOUR_NS = 3_600_000_000_000
_GROUP_ROWS = 20_000
_GROUP_BYTES = 32 << 20
"""Of bodies: so much waits in memory at most, for each hour that is open, until it is written."""
_MOST_OPEN = 4
"""Hours: captures of several machines may be put together in one file."""


class ParquetSink(Sink):
    """Writes exchanges to ``folder``; a file is whole after ``seconds``, or at the folder's size.

    ``body_bytes``: how much of a body is stored. Raises ``OutputError`` once if a file cannot be
    written; the rest is dropped, and what is whole stays.
    """

    def __init__(self, folder: TableFolder, *, body_bytes: int, seconds: float) -> None:
        self.wants_bodies = bool(body_bytes)
        self._folder = folder
        self._body_bytes = body_bytes
        self._columns = exchange_columns(body_bytes)
        self._seconds = seconds
        self._files: dict[int, _TableFile] = {}
        self._is_broken = False

    def exchange(self, exchange: Exchange) -> None:
        """See ``Sink``."""
        if self._is_broken:
            return
        hour = exchange.started_ns // _HOUR_NS
        self._guarded(lambda: self._file(hour).add(exchange))

    def flush(self) -> None:
        """See ``Sink``: end the files that are old or large enough."""
        ended = [hour for hour, file in self._files.items() if file.is_due(self._seconds)]
        for hour in ended:
            self._end(hour)

    def persist(self) -> None:
        """See ``Sink``: end all files."""
        for hour in [*self._files]:
            self._end(hour)
        self._folder.persist()

    def close(self) -> None:
        """See ``Sink``."""
        for hour in [*self._files]:
            self._end(hour)
        self._folder.close()

    def _file(self, hour: int) -> "_TableFile":
        file = self._files.get(hour)
        if file is None:
            if len(self._files) >= _MOST_OPEN:
                self._end(next(iter(self._files)))
            file = self._files[hour] = _TableFile(
                self._folder, hour, self._columns, self._body_bytes
            )
        return file

    def _end(self, hour: int) -> None:
        file = self._files.pop(hour)
        if not self._is_broken:
            self._guarded(file.end)

    def _guarded(self, write: Callable[[], None]) -> None:
        self._is_broken = True
        try:
            write()
        except (OSError, pa.ArrowException) as error:
            raise OutputError(
                f"cannot write {self._folder.name}: {getattr(error, 'strerror', None) or error}",
                "make room or name a folder elsewhere",
            ) from error
        self._is_broken = False


def _partition(hour: int) -> str:
    """Return the folder of an hour, counted from the epoch; 0: exchanges whose time is unknown."""
    if not hour:
        return f"date={_NULL_PARTITION}/hour={_NULL_PARTITION}"
    day = datetime.fromtimestamp(hour * 3600, UTC)
    return f"date={day:%Y-%m-%d}/hour={day:%H}"


class _TableFile:
    """A file of the exchanges that began in ``hour``, counted from the epoch."""

    def __init__(
        self, folder: TableFolder, hour: int, columns: list[TableColumn], most_body_bytes: int
    ) -> None:
        name = f"{this_machine()}-{time.time_ns()}-{os.getpid()}.parquet"
        self._most_bytes = folder.file_bytes
        self._file = folder.begin(_partition(hour), name)
        self._columns = columns
        self._most_body_bytes = most_body_bytes
        self._schema = pa.schema([(column.name, _TYPES[column.kind]) for column in columns])
        self._writer = pq.ParquetWriter(self._file.stream, self._schema, compression="zstd")
        self._rows: list[tuple[Any, ...]] = []
        self._body_bytes = 0
        self._began_s = time.monotonic()

    def add(self, exchange: Exchange) -> None:
        """Add a row."""
        self._rows.append(tuple([column.value(exchange) for column in self._columns]))
        if self._most_body_bytes:
            for message in (exchange.request, exchange.response):
                if message is not None:
                    self._body_bytes += min(len(message.body.data), self._most_body_bytes)
        if len(self._rows) >= _GROUP_ROWS or self._body_bytes >= _GROUP_BYTES:
            self._write_rows()

    def is_due(self, seconds: float) -> bool:
        """Return whether it is ``seconds`` old, or large."""
        is_large = self._file.stream.tell() >= self._most_bytes
        return is_large or time.monotonic() - self._began_s >= seconds

    def end(self) -> None:
        """Write what waits, and give the file its name."""
        if self._rows:
            self._write_rows()
        self._writer.close()
        self._file.complete()

    def _write_rows(self) -> None:
        values = zip(*self._rows, strict=True)
        arrays = [
            pa.array(of_column, _TYPES[column.kind])
            for of_column, column in zip(values, self._columns, strict=True)
        ]
        self._rows = []
        self._body_bytes = 0
        self._writer.write_table(pa.Table.from_arrays(arrays, schema=self._schema))
