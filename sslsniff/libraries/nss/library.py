"""What is known of NSS."""

from typing import TYPE_CHECKING

from sslsniff.libraries.nss.plan import NSS
from sslsniff.matching.library import Library

if TYPE_CHECKING:
    from sslsniff.core.library_failure import LibraryFailure


def _failure(error: int, verified: int | None) -> "LibraryFailure":
    from sslsniff.libraries.nss.failures import failure  # only if one is seen

    return failure(error, verified)


LIBRARY = Library(
    id="nss",
    name="NSS",
    plan=NSS,
    failure=_failure,
    found_by="method tables",
    no_key_log="NSS takes secrets out of its key store only for a program that asks for them",
)
