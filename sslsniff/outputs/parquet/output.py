"""``--parquet``: tables of exchanges."""

from pathlib import Path
from typing import TYPE_CHECKING

from sslsniff.destinations.options import END_WITHIN
from sslsniff.destinations.output import Opening, Output, needed_extra
from sslsniff.settings import values
from sslsniff.settings.asked import Asked
from sslsniff.settings.option import value

if TYPE_CHECKING:
    from sslsniff.core.sink import Sink
    from sslsniff.outputs.parquet.folders import TableFolder

FOLDER = value(
    "--parquet",
    values.name,
    "FOLDER",
    "write tables of exchanges for DuckDB and other engines there, in folders by date and"
    " hour, and show only the summary; s3://BUCKET/FOLDER, too (docs/parquet.md)",
    setting=("parquet", "folder"),
)
BODIES = value(
    "--parquet-bodies",
    values.size,
    "SIZE",
    "most bytes of a body in a table (default: 0, no bodies)",
    default=0,
    setting=("parquet", "bodies"),
)
SECONDS = value(
    "--parquet-seconds",
    values.seconds,
    "SECONDS",
    "begin a new file after this time; an older one is whole (default: 60)",
    default=60,
    setting=("parquet", "seconds"),
    is_number=True,
)


def _check(asked: Asked) -> None:
    with needed_extra("--parquet", "parquet", "pyarrow"):
        from sslsniff.outputs.parquet.folders import check_place
    check_place(asked[FOLDER] or "")


def _open(asked: Asked, opening: Opening) -> "Sink":
    from sslsniff.outputs.parquet.folders import LocalFolder, ObjectStore, is_url
    from sslsniff.outputs.parquet.parquet_folder import ParquetSink

    folder = asked[FOLDER] or ""
    place: TableFolder = (
        ObjectStore(
            folder, opening.note, can_wait=not opening.is_live, end_within_s=asked[END_WITHIN]
        )
        if is_url(folder)
        else LocalFolder(Path(folder))
    )
    return ParquetSink(place, body_bytes=asked[BODIES], seconds=asked[SECONDS])


def _is_elsewhere(asked: Asked) -> bool:
    return "://" in (asked[FOLDER] or "")


PARQUET = Output(
    option=FOLDER,
    options=(FOLDER, BODIES, SECONDS),
    open=_open,
    endings=(".parquet",),
    leaves_machine=_is_elsewhere,
    check=_check,
)
