"""What is known of GnuTLS."""

from typing import TYPE_CHECKING

from sslsniff.libraries.gnutls.plan import GNUTLS
from sslsniff.matching.library import Library

if TYPE_CHECKING:
    from sslsniff.core.library_failure import LibraryFailure
    from sslsniff.elf.elf_file import Elf
    from sslsniff.matching.probe_set import KeyLog


def _key_log(elf: "Elf") -> "KeyLog":
    from sslsniff.matching.key_log.of_c import key_log_of_c  # only to analyse a file

    return key_log_of_c(elf, stored_by="gnutls_session_get_random")


def _failure(error: int, verified: int | None) -> "LibraryFailure":
    from sslsniff.libraries.gnutls.failures import failure  # only if one is seen

    return failure(error, verified)


LIBRARY = Library(id="gnutls", name="GnuTLS", plan=GNUTLS, key_log=_key_log, failure=_failure)
