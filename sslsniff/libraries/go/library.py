"""What is known of Go's crypto/tls."""

from typing import TYPE_CHECKING

from sslsniff.libraries.go.unprobed import UNPROBED
from sslsniff.matching.library import Found, Library, Search

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sslsniff.core.library_failure import LibraryFailure
    from sslsniff.elf.elf_file import Elf
    from sslsniff.matching.probe_set import KeyLog, ReturnStyle


def _key_log(elf: "Elf") -> "KeyLog":
    from sslsniff.libraries.go.key_log import go_key_log  # only to analyse a file

    return go_key_log(elf)


def _fit(elf: "Elf", style: "ReturnStyle") -> Found:
    from sslsniff.libraries.go.go_fitting import fit_go

    return fit_go(elf, style)


def _programs() -> set[str | None]:
    from sslsniff.libraries.go.plan import ROWS

    return {row.program for row in ROWS}


def _failure(error: int, verified: int | None) -> "LibraryFailure":
    from sslsniff.libraries.go.failures import failure  # only if one is seen

    return failure(error, verified)


def _rows() -> "Iterable[tuple[str, bytes, bytes]]":
    from sslsniff.libraries.go.failures import rows  # only where a program of Go is probed

    return rows()


LIBRARY = Library(
    id="go",
    name=UNPROBED.name,
    search=Search(_fit, _programs, rows=_rows),
    failure=_failure,
    found_by="function table",
    key_log=_key_log,
)
